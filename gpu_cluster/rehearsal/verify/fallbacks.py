"""A rehearsal's record of fallbacks (the next choice, how long it took, the return) and of nodes
that came from a warm pool."""

from collections.abc import Sequence

from gpu_cluster.rehearsal.event_log import Event


def seen(events: Sequence[Event]) -> list[str]:
    """A line for the first node of each order that started because an earlier choice was refused,
    and for each node that was replaced by a better one."""
    refused: dict[str, dict[str, float]] = {}
    """Order -> choice -> when the cloud first refused it."""
    lines: list[str] = []
    members: dict[str, tuple[str, str]] = {}
    """Node -> its order and its choice."""
    for event in events:
        if event.kind == "cloud" and event.what == "refused":
            choices = refused.setdefault(event.detail["order"], {})
            choices.setdefault(event.detail["choice"], event.at)
        elif event.kind == "node" and event.what == "member":
            members[event.subject] = event.detail["order"], event.detail["choice"]
        elif event.kind == "node" and event.what == "gpus" and event.detail["gpus"]:
            order, choice = members.get(event.subject, ("", ""))
            if order and (earlier := refused.get(order)) and choice not in earlier:
                first = min(earlier.values())
                lines.append(
                    f"{', then '.join(earlier)} unavailable from {first:.1f} s on; {choice} had "
                    f"GPUs {event.at - first:.1f} s later"
                )
                del refused[order]
        elif event.kind == "node" and event.what == "moved back":
            lines.append(
                f"pods moved from {event.detail['group']} back to {event.detail['to']} at "
                f"{event.at:.1f} s"
            )
    return lines


def warm_starts(events: Sequence[Event]) -> list[str]:
    """A line for each group with nodes that came from its warm pool."""
    nodes, left = dict[str, int](), dict[str, int]()
    for event in events:
        if event.kind == "cloud" and event.what == "warm start":
            nodes[event.subject] = nodes.get(event.subject, 0) + event.detail["nodes"]
            left[event.subject] = event.detail["left"]
    # AWS publishes no times.
    return [
        f"{count} node{'s' * (count > 1)} of {group} came from its warm pool, where {left[group]} "
        "more waited (how much sooner than launched ones is not simulated)"
        for group, count in nodes.items()
    ]
