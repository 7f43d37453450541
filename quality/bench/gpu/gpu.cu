// What a GPU gives a program that is written for it alone: the other side of the acceptance
// workload's figures. Prints JSON: measure -> median and best of the windows, and what won.
//
// Matrix products: cuBLASLt, every heuristic of three layouts and two sizes, the fastest one kept.
// Memory: copy and triad as 16-byte streaming kernels, the best of several shapes of the grid.
// Host link: cudaMemcpyAsync with pinned memory of two sizes.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#define CHECK(call)                                                              \
  do {                                                                           \
    if (auto code = (call); int(code) != 0) {                                    \
      std::fprintf(stderr, "line %d: %s: code %d\n", __LINE__, #call, int(code)); \
      std::exit(1);                                                              \
    }                                                                            \
  } while (0)

constexpr int kWindows = 7;
constexpr double kWindowSeconds = 0.3;
constexpr double kTrialSeconds = 0.05;
constexpr size_t kWorkspace = size_t(64) << 20;

using Work = std::function<void()>;

double timed(const Work& run, int times) {
  static cudaEvent_t begin = nullptr, end = nullptr;
  if (!begin) {
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaEventRecord(begin));
  for (int i = 0; i < times; ++i) run();
  CHECK(cudaEventRecord(end));
  CHECK(cudaEventSynchronize(end));
  CHECK(cudaGetLastError());
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  return milliseconds / 1e3 / times;
}

double seconds(const Work& run, double budget) {
  const double once = timed(run, 1);
  return timed(run, std::max(1, int(budget / std::max(once, 1e-6))));
}

bool first_line = true;

void report(const char* measure, const Work& run, double amount, const char* unit,
            const std::string& how, double error) {
  seconds(run, 1.0);
  std::vector<double> rates;
  for (int i = 0; i < kWindows; ++i) rates.push_back(amount / seconds(run, kWindowSeconds));
  std::sort(rates.begin(), rates.end());
  std::printf("%s\n \"%s\": {\"value\": %.3f, \"best\": %.3f, \"unit\": \"%s\", \"how\": \"%s\"",
              first_line ? "{" : ",", measure, rates[kWindows / 2], rates.back(), unit, how.c_str());
  if (error >= 0) std::printf(", \"error\": %.2e", error);
  std::printf("}");
  first_line = false;
}

// Normal numbers from a hash of the index: zeros draw less power and run faster.
template <typename T>
__global__ void fill(T* out, size_t count, unsigned long long seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count;
       i += size_t(gridDim.x) * blockDim.x) {
    unsigned long long x = i + seed * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    x ^= x >> 31;
    const float u = (float(x >> 40) + 0.5f) / 16777216.0f;
    const float v = float(x & 0xFFFFFF) / 16777216.0f;
    out[i] = T(sqrtf(-2.0f * logf(u)) * cospif(2.0f * v));
  }
}

// The upper left 64 x 64 of the product in double precision, and how far the result is from it.
template <typename T>
__global__ void compare(const T* a, const T* b, const T* c, int n, bool ta, bool tb, double* sums) {
  const int row = blockIdx.x, column = threadIdx.x;
  double exact = 0;
  for (int k = 0; k < n; ++k) {
    const double left = double(float(ta ? a[size_t(row) * n + k] : a[size_t(k) * n + row]));
    const double right = double(float(tb ? b[size_t(k) * n + column] : b[size_t(column) * n + k]));
    exact += left * right;
  }
  const double off = double(float(c[size_t(column) * n + row])) - exact;
  atomicAdd(&sums[0], off * off);
  atomicAdd(&sums[1], exact * exact);
}

struct Product {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  int size = 0;
  bool ta = false, tb = false;
  int heuristic = 0;
  double rate = 0;
};

template <typename T>
void products(cublasLtHandle_t handle, const char* measure, cudaDataType_t type, void* workspace) {
  constexpr int kLargest = 16384;
  T *a, *b, *c;
  for (T** buffer : {&a, &b, &c}) {
    CHECK(cudaMalloc(buffer, sizeof(T) * kLargest * kLargest));
  }
  fill<<<1024, 256>>>(a, size_t(kLargest) * kLargest, 1);
  fill<<<1024, 256>>>(b, size_t(kLargest) * kLargest, 2);
  const float alpha = 1, beta = 0;
  auto work = [&](const Product& p) -> Work {
    return [&, p] {
      CHECK(cublasLtMatmul(handle, p.operation, &alpha, a, p.a, b, p.b, &beta, c, p.c, c, p.c,
                           &p.algorithm, workspace, kWorkspace, nullptr));
    };
  };
  cublasLtMatmulPreference_t preference;
  CHECK(cublasLtMatmulPreferenceCreate(&preference));
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &kWorkspace, sizeof(kWorkspace)));
  Product best;
  for (int size : {8192, kLargest}) {
    for (auto [ta, tb] : {std::pair{true, false}, std::pair{false, false}, std::pair{false, true}}) {
      Product p;
      p.size = size, p.ta = ta, p.tb = tb;
      CHECK(cublasLtMatmulDescCreate(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
      const cublasOperation_t left = ta ? CUBLAS_OP_T : CUBLAS_OP_N;
      const cublasOperation_t right = tb ? CUBLAS_OP_T : CUBLAS_OP_N;
      CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &left,
                                           sizeof(left)));
      CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSB, &right,
                                           sizeof(right)));
      for (auto* layout : {&p.a, &p.b, &p.c}) {
        CHECK(cublasLtMatrixLayoutCreate(layout, type, size, size, size));
      }
      cublasLtMatmulHeuristicResult_t results[8];
      int found = 0;
      CHECK(cublasLtMatmulAlgoGetHeuristic(handle, p.operation, p.a, p.b, p.c, p.c, preference, 8,
                                           results, &found));
      for (int i = 0; i < found; ++i) {
        p.algorithm = results[i].algo;
        p.heuristic = i;
        p.rate = 2.0 * size * size * size / seconds(work(p), kTrialSeconds) / 1e12;
        if (p.rate > best.rate) best = p;
      }
    }
  }
  double* sums;
  CHECK(cudaMalloc(&sums, 2 * sizeof(double)));
  CHECK(cudaMemset(sums, 0, 2 * sizeof(double)));
  CHECK(cudaMemset(c, 0xFF, sizeof(T) * kLargest * kLargest));
  work(best)();
  compare<<<64, 64>>>(a, b, c, best.size, best.ta, best.tb, sums);
  double off[2];
  CHECK(cudaMemcpy(off, sums, sizeof(off), cudaMemcpyDeviceToHost));
  const std::string how = std::to_string(best.size) + " " + (best.ta ? "T" : "N") +
                          (best.tb ? "T" : "N") + ", heuristic " + std::to_string(best.heuristic);
  report(measure, work(best), 2.0 * best.size * best.size * best.size / 1e12, "TFLOP/s", how,
         std::sqrt(off[0] / off[1]));
  for (void* buffer : {(void*)a, (void*)b, (void*)c, (void*)sums}) CHECK(cudaFree(buffer));
}

template <int kUnroll, bool kTriad>
__global__ void stream(float4* a, const float4* b, const float4* c, size_t count) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += step * kUnroll) {
    float4 left[kUnroll], right[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      if (i + k * step < count) {
        left[k] = __ldcs(&b[i + k * step]);
        if (kTriad) right[k] = __ldcs(&c[i + k * step]);
      }
    }
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      if (i + k * step < count) {
        float4 x = left[k];
        if (kTriad) {
          x.x = fmaf(3.0f, right[k].x, x.x);
          x.y = fmaf(3.0f, right[k].y, x.y);
          x.z = fmaf(3.0f, right[k].z, x.z);
          x.w = fmaf(3.0f, right[k].w, x.w);
        }
        __stcs(&a[i + k * step], x);
      }
    }
  }
}

template <bool kTriad>
void streams(const char* measure, float4* a, float4* b, float4* c, size_t bytes) {
  const size_t count = bytes / sizeof(float4);
  int processors = 0;
  CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  double best = 0;
  Work work;
  std::string how;
  for (int threads : {256, 512, 1024}) {
    // A grid that stays, several per multiprocessor, and one in which each thread comes once.
    for (int blocks : {processors * 2, processors * 8, processors * 32, 0}) {
      for (int unroll : {1, 4, 8}) {
        if (threads * unroll > 4096) continue;  // more registers than a multiprocessor has
        const int grid = blocks ? blocks : int((count + size_t(threads) * unroll - 1) /
                                               (size_t(threads) * unroll));
        auto kernel = unroll == 1   ? stream<1, kTriad>
                      : unroll == 4 ? stream<4, kTriad>
                                    : stream<8, kTriad>;
        Work run = [=] { kernel<<<grid, threads>>>(a, b, c, count); };
        const double rate = 1 / seconds(run, kTrialSeconds);
        if (rate > best) {
          best = rate;
          work = run;
          how = std::to_string(grid) + " x " + std::to_string(threads) + ", " +
                std::to_string(unroll) + " at once";
        }
      }
    }
  }
  CHECK(cudaMemset(a, 0xFF, bytes));
  work();
  float x[3];
  const size_t last = bytes - sizeof(float);
  CHECK(cudaMemcpy(&x[0], (char*)a + last, sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&x[1], (char*)b + last, sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&x[2], (char*)c + last, sizeof(float), cudaMemcpyDeviceToHost));
  const double exact = double(x[1]) + (kTriad ? 3.0 * x[2] : 0.0);
  report(measure, work, (kTriad ? 3 : 2) * double(bytes) / 1e9, "GB/s", how,
         std::fabs(x[0] - exact) / std::fabs(exact));
}

int main() {
  cublasLtHandle_t handle;
  CHECK(cublasLtCreate(&handle));
  void* workspace;
  CHECK(cudaMalloc(&workspace, kWorkspace));
  products<__nv_bfloat16>(handle, "bf16", CUDA_R_16BF, workspace);
  products<float>(handle, "fp32", CUDA_R_32F, workspace);

  const size_t bytes = size_t(4) << 30;
  float4* buffers[3];
  for (int i = 0; i < 3; ++i) {
    CHECK(cudaMalloc(&buffers[i], bytes));
    fill<<<1024, 256>>>((float*)buffers[i], bytes / sizeof(float), 3 + i);
  }
  streams<false>("copy", buffers[0], buffers[1], buffers[2], bytes);
  streams<true>("triad", buffers[0], buffers[1], buffers[2], bytes);

  const size_t pinned = size_t(1) << 30;
  char *up, *down, *there = (char*)buffers[0];
  CHECK(cudaMallocHost(&up, pinned));
  CHECK(cudaMallocHost(&down, pinned));
  CHECK(cudaMemcpy(up, buffers[1], pinned, cudaMemcpyDeviceToHost));
  for (auto [measure, to, from, kind] :
       {std::tuple{"hostToDevice", there, up, cudaMemcpyHostToDevice},
        std::tuple{"deviceToHost", down, there, cudaMemcpyDeviceToHost}}) {
    size_t size = 0;
    double best = 0;
    for (size_t each : {pinned / 4, pinned}) {
      const double rate =
          double(each) / seconds([=] { cudaMemcpyAsync(to, from, each, kind); }, kTrialSeconds);
      if (rate > best) best = rate, size = each;
    }
    report(measure, [=] { cudaMemcpyAsync(to, from, size, kind); }, double(size) / 1e9, "GB/s",
           std::to_string(size >> 20) + " MiB", -1);
  }
  std::printf("\n}\n");
  return 0;
}
