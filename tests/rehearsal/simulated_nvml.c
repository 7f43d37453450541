/* The part of NVIDIA's management library that the DRA driver asks when it looks for GPUs and writes
   their CDI files: one GPU without MIG. Names, structures and numbers are those of nvml.h (13.0). */
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, HOPPER = 9, NVIDIA = 14 };
static char gpu;
typedef void *Device;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char busId[32];
} Pci;

static int text(char *target, unsigned size, const char *value) {
  return snprintf(target, size, "%s", value) < 0;
}

int nvmlInitWithFlags(unsigned flags) { return SUCCESS; }
int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return "simulated"; }
int nvmlSystemGetDriverVersion(char *to, unsigned n) { return text(to, n, "580.159.04"); }
int nvmlSystemGetCudaDriverVersion(int *version) { return *version = 13000, SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return *version = 13000, SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = 1, SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Device *d) { return *d = &gpu, SUCCESS; }
int nvmlDeviceGetHandleByUUID(const char *uuid, Device *d) {
  return strcmp(uuid, UUID) ? NOT_FOUND : (*d = &gpu, SUCCESS);
}
int nvmlDeviceGetIndex(Device d, unsigned *index) { return *index = 0, SUCCESS; }
int nvmlDeviceGetMinorNumber(Device d, unsigned *minor) { return *minor = 0, SUCCESS; }
int nvmlDeviceGetUUID(Device d, char *to, unsigned n) { return text(to, n, UUID); }
int nvmlDeviceGetName(Device d, char *to, unsigned n) { return text(to, n, NAME); }
int nvmlDeviceGetBrand(Device d, int *brand) { return *brand = NVIDIA, SUCCESS; }
int nvmlDeviceGetArchitecture(Device d, unsigned *type) { return *type = HOPPER, SUCCESS; }
int nvmlDeviceGetCudaComputeCapability(Device d, int *major, int *minor) {
  return *major = 9, *minor = 0, SUCCESS;
}
int nvmlDeviceGetMemoryInfo(Device d, Memory *memory) {
  return memory->total = 1ULL << 30, SUCCESS;
}
int nvmlDeviceGetPciInfo_v3(Device d, Pci *pci) {
  memset(pci, 0, sizeof *pci);
  return text(pci->busId, sizeof pci->busId, "00000000:01:00.0");
}
int nvmlDeviceIsMigDeviceHandle(Device d, unsigned *mig) { return *mig = 0, SUCCESS; }
int nvmlDeviceGetGpuInstanceProfileInfo(Device d, unsigned i, void *to) { return NOT_SUPPORTED; }
