#!/bin/sh
# The MPS daemon calls `nvidia-smi -c` to change the GPU's compute mode. A rehearsal leaves the
# machine's settings as they are: MPS works in the default mode too.
case " $* " in *" -c "*) exit 0 ;; esac
PATH="${PATH#*:}" exec nvidia-smi "$@"
