"""StorageClasses that a stack's claims on GKE name and GKE does not provide."""

from collections.abc import Collection, Mapping

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from ..catalog import gke_volumes as catalog
from ..cluster import Cluster, Runs
from .existing_args import GkeExistingNetworkArgs
from .network_args import GkeNetworkArgs


def declare_storage(
    runs: Runs,
    *,
    args: GkeNetworkArgs | GkeExistingNetworkArgs,
    network: pulumi.Input[str],
    project: str,
    cluster: Cluster,
    cache: Mapping[str, str] | None = None,
) -> None:
    """Creates the classes that the stack's claims name and GKE does not provide, if there are any.
    `network`: the cluster's, as `projects/...`; `cache`: the parameters of cached disks."""
    if classes := runs.storage_classes & catalog.STACK_CLASSES.keys():
        GkeStorage(
            "storage",
            classes,
            args=args,
            network=network,
            project=project,
            cluster=cluster,
            cache=cache or {},
            opts=cluster.component_options,
        )


class GkeStorage(pulumi.ComponentResource):
    """The classes, and, with the first one for Filestore, the API that its driver calls."""

    def __init__(
        self,
        name: str,
        classes: Collection[str],
        *,
        args: GkeNetworkArgs | GkeExistingNetworkArgs,
        network: pulumi.Input[str],
        project: str,
        cluster: Cluster,
        cache: Mapping[str, str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`classes`: keys of the catalog's `STACK_CLASSES`; `network`: `projects/...`."""
        super().__init__("gpu-cluster:gke:Storage", name, None, opts)
        rows = {name: catalog.STACK_CLASSES[name] for name in sorted(classes)}
        api: list[pulumi.Resource] = []
        if any(volume.driver == catalog.FILESTORE for volume in rows.values()):
            api.append(
                gcp.projects.Service(
                    catalog.FILESTORE_API,
                    project=project,
                    service=catalog.FILESTORE_API,
                    # Others in the project may depend on it by then.
                    disable_on_destroy=False,
                    opts=pulumi.ResourceOptions(parent=self),
                )
            )
        for class_name, volume in rows.items():
            files = volume.driver == catalog.FILESTORE
            kubernetes.storage.v1.StorageClass(
                class_name,
                metadata={"name": class_name},
                provisioner=volume.driver,
                parameters={
                    **volume.parameters,
                    **(_in_network(args, network) if files else {}),
                    **(cache if volume.cached else {}),
                },
                # A volume is created in the zone of its pod, which is not known before the pod is
                # scheduled.
                volume_binding_mode="WaitForFirstConsumer",
                # The driver extends no logical volume, of which a disk with a cache is a part: once
                # the disk is larger, no pod mounts it any more (gcp-compute-persistent-disk-csi-
                # driver b560165c, NodeExpandVolume and setupCaching).
                allow_volume_expansion=not volume.cached,
                reclaim_policy="Delete",
                opts=cluster.options(self, delete_before_replace=True, depends_on=api),
            )
        self.register_outputs({})


def _in_network(
    args: GkeNetworkArgs | GkeExistingNetworkArgs, network: pulumi.Input[str]
) -> dict[str, pulumi.Input[str]]:
    """A network of the project is referred to by its name, a Shared VPC by its full name.

    https://github.com/kubernetes-sigs/gcp-filestore-csi-driver, README, "StorageClass parameters".
    """
    if args.host_project is not None:
        return {"network": network, "connect-mode": "PRIVATE_SERVICE_ACCESS"}
    name = pulumi.Output.from_input(network).apply(lambda path: path.rpartition("/")[2])
    return {"network": name}
