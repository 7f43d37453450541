"""A disk image of Compute Engine with container images, as settings of a GKE pool name it.

GKE: "Use secondary boot disks to preload data or container images" (read 2026-11-29); COS from
1.30.1-gke.1329000 on. Only one for each pool: of several, the provider sends the first
(hashicorp/terraform-provider-google issue 19037, pulumi/pulumi-gcp issue 3418; open).
"""

import re

from ..catalog.gke import COMPUTE_NAME, PROJECT_ID
from ..schema.limits import matching

DISK_IMAGE = matching(
    "a disk image such as global/images/cuda-12-8, or projects/PROJECT/global/images/cuda-12-8 of "
    "another project",
    re.compile(rf"(?:projects/{PROJECT_ID}/)?global/images/{COMPUTE_NAME}"),
)
