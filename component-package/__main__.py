"""Started by the engine for programs that use the component package."""

from gpu_cluster.plugin import serve

serve()
