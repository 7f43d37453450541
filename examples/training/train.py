"""A small training that a real GPU finishes in a minute: it reads data, saves checkpoints, resumes.

Run by torchrun, once for each GPU. It needs only PyTorch. Where DATA has no `part-*.pt` it makes
data of its own, so that it runs without anything prepared.
"""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

DATA = Path(os.environ.get("DATA", "/data"))
CHECKPOINTS = Path(os.environ.get("CHECKPOINTS", "/checkpoints"))
STEPS = int(os.environ.get("STEPS", "600"))
EVERY = int(os.environ.get("CHECKPOINT_EVERY", "100"))
PAUSE = float(os.environ.get("PAUSE_SECONDS", "0"))
"""After each step, to have the time to kill a worker."""
FEATURES = 64


def samples(rank: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's inputs and targets: files of DATA, taken in turn, else made here."""
    files = sorted(DATA.glob("part-*.pt"))
    mine = files[rank % len(files)] if files else None
    if mine is not None:
        inputs, targets = torch.load(mine, map_location=device, weights_only=True)
        print(f"rank {rank}: {len(inputs)} samples of {mine}", flush=True)
        return inputs, targets
    torch.manual_seed(rank)
    inputs = torch.randn(4096, FEATURES, device=device)
    print(f"rank {rank}: {DATA} has no part-*.pt, made {len(inputs)} samples", flush=True)
    return inputs, torch.sin(inputs).sum(1, keepdim=True)


def last_checkpoint(device: torch.device) -> dict | None:
    """The newest one that can be read: a worker may have been killed while it wrote."""
    for file in sorted(CHECKPOINTS.glob("step-*.pt"), reverse=True):
        try:
            return torch.load(file, map_location=device, weights_only=True)
        except Exception as error:
            print(f"{file} cannot be read, taking the one before: {error}", flush=True)
    return None


def save(step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Writes a checkpoint from its beginning to its end under its final name, as buckets need."""
    file = CHECKPOINTS / f"step-{step:06d}.pt"
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
               file)  # fmt: skip
    print(f"step {step}: wrote {file}", flush=True)


def main() -> None:
    gpus = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpus else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    inputs, targets = samples(rank, device)
    if gpus:
        torch.cuda.synchronize()
        print("gpu-cluster-cuda-ready", flush=True)  # gpu-cluster job startup shows its time
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 256), torch.nn.GELU(), torch.nn.Linear(256, 1)
    ).to(device)
    parallel = DistributedDataParallel(model, device_ids=[local] if gpus else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    begin = 0
    # Every rank reads it: all begin with the same step, or none does.
    if (found := last_checkpoint(device)) is not None:
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        begin = int(found["step"])
        if rank == 0:
            print(f"resumed from step {begin}", flush=True)
    for step in range(begin + 1, STEPS + 1):
        chosen = torch.randint(len(inputs), (512,), device=device)
        loss = torch.nn.functional.mse_loss(parallel(inputs[chosen]), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and (step == begin + 1 or step % 50 == 0):
            where = torch.cuda.get_device_name(device) if gpus else "CPU"
            print(f"step {step}: loss {loss.item():.5f}, {dist.get_world_size()} x {where}",
                  flush=True)  # fmt: skip
        if step % EVERY == 0:
            if rank == 0:
                save(step, model, optimizer)
            dist.barrier()
        time.sleep(PAUSE)
    if rank == 0:
        print(f"done: {STEPS} steps", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
