"""Started by the engine for programs that use the component package."""

from gpu_cluster.components.plugin import serve

serve()
