"""a. Preview and `up` without changes, compared with a bare program with the same resources."""

import pickle
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from quality.bench import bare
from quality.bench.measure import Comparison, Section, alternately
from quality.bench.workspace import Operation, Program, copied, exported
from rehearsal.sandbox import Sandbox, SandboxOptions

LIMIT = 1.25
OPERATIONS: tuple[Operation, ...] = ("preview", "up")
QUANTITIES = {"wall": "s", "memory": "MiB"}


def measure(stacks: Sequence[str], runs: int) -> Section:
    """Uses one sandbox per stack, in which both programs run alternately."""
    rows: list[Comparison] = []
    for stack in stacks:
        with tempfile.TemporaryDirectory(prefix=f"bench-{stack}-") as folder:
            rows += _of(stack, Path(folder) / "sandbox", runs)
    return Section(
        letter="a",
        title="Preview and `up` that change nothing",
        ours="program",
        theirs="bare program",
        rows=rows,
        notes=[
            "The bare program is written from what the engine was asked to register: same types, "
            "names, order and inputs, all literal, no component. Both run on the same state, which "
            "neither changes; the state is one that is up, because on an empty one the bare "
            "program's literals would be known where any real program's are not.",
            "Time is that of the whole command, memory the program's own process at its peak.",
        ],
    )


def _of(stack: str, folder: Path, runs: int) -> list[Comparison]:
    with Sandbox(stack, folder=folder, options=SandboxOptions(scaling=False)) as sandbox:
        outcome = sandbox.engine.up()
        if not outcome.ok:
            raise RuntimeError(f"{stack}: pulumi up failed: {'; '.join(outcome.errors)}")
        ours, theirs = programs(sandbox)
        rows = []
        for operation in OPERATIONS:
            taken = alternately(runs, partial(ours.run, operation), partial(theirs.run, operation))
            rows += [
                Comparison(
                    what=f"{stack}: {operation}, {'time' if quantity == 'wall' else quantity}",
                    unit=unit,
                    ours=taken[0][quantity],
                    theirs=taken[1][quantity],
                    limit=LIMIT,
                )
                for quantity, unit in QUANTITIES.items()
            ]
    return rows


def programs(sandbox: Sandbox) -> tuple[Program, Program]:
    """The sandbox's program and its bare equivalent, each deployed with its own state."""
    state = exported(sandbox)
    recording = copied(sandbox, "recording")
    kept = recording / "registered.pickle"
    main = recording / "__main__.py"
    text = Path(__file__).with_name("recorder.py").read_text()
    (recording / "recorder.py").write_text(text)
    main.write_text(f"import recorder\n\nrecorder.start({str(kept)!r})\n{main.read_text()}")
    recorded = Program(sandbox, "recording", recording)
    recorded.load(state)
    recorded.run("preview")

    ours = Program(sandbox, "ours", sandbox.folder / "program")
    ours.load(state)
    literal = copied(sandbox, "bare")
    (literal / "components").rename(literal / "unused")
    bare.write(literal, bare.source(pickle.loads(kept.read_bytes()), bare.outputs_of(state)))
    theirs = Program(sandbox, "bare", literal)
    theirs.load(bare.flattened(state))
    return ours, theirs
