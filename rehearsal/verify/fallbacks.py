"""What a rehearsal saw of orders of fallback: the next choice, how long it took, the way back."""

from collections.abc import Sequence

from rehearsal.event_log import Event


def seen(events: Sequence[Event]) -> list[str]:
    """A line for each node that came because an earlier choice was refused, and for each that was
    left for a better one."""
    refused: dict[str, float] = {}
    """Group -> when the cloud first refused it."""
    lines: list[str] = []
    members: dict[str, str] = {}
    for event in events:
        if event.kind == "cloud" and event.what == "refused":
            refused.setdefault(event.subject, event.at)
        elif event.kind == "node" and event.what == "member":
            members[event.subject] = event.detail["group"]
        elif event.kind == "node" and event.what == "gpus" and event.detail["gpus"]:
            group = members.get(event.subject, event.detail["group"])
            if refused and group not in refused and not lines:
                first = min(refused.values())
                names = ", then ".join(refused)
                lines.append(
                    f"{names} refused from {first:.1f} s on; {group} had GPUs "
                    f"{event.at - first:.1f} s later"
                )
        elif event.kind == "node" and event.what == "moved back":
            lines.append(
                f"pods moved from {event.detail['group']} back to {event.detail['to']} at "
                f"{event.at:.1f} s"
            )
    return lines
