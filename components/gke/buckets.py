"""How pods on GKE mount a bucket: Cloud Storage FUSE, by a volume in the pod itself.

https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-ephemeral
"""

from components.access import Access, BucketDriver

ACCESS = Access(
    rights="roles",
    buckets=BucketDriver(
        driver="gcsfuse.csi.storage.gke.io",
        inline=True,
        # GKE's webhook adds the sidecar that does the mounting.
        pod_annotations={"gke-gcsfuse/volumes": "true"},
        # Folders that exist only in the names of objects are there too.
        attributes={"mountOptions": "implicit-dirs"},
    ),
)
