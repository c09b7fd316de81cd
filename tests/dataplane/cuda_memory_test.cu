// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/cuda_memory.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include "kernels/cuda_device.h"

namespace spin::dataplane {
namespace {

using ::testing::HasSubstr;

class CudaMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto devices = kernels::ListCudaDevices();
    if (!devices.ok()) GTEST_SKIP() << devices.status();
    uuid_ = devices->front().uuid;
  }
  std::string uuid_;
};

TEST_F(CudaMemoryTest, TheExporterItselfGetsItsOwnAddress) {
  const auto memory = *CudaMemory::Allocate(uuid_, 1 << 20);
  const auto handle = ExportCudaMemory(memory->data());
  ASSERT_TRUE(handle.ok()) << handle.status();
  const auto again = CudaMemory::Open(uuid_, *handle, 1 << 20);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->data(), memory->data());
}

TEST_F(CudaMemoryTest, ViewsIntoOneAllocationLeadToTheirOwnBytes) {
  const auto memory = *CudaMemory::Allocate(uuid_, 1 << 20);
  const auto handle = ExportCudaMemory(memory->data() + 4096);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(handle->offset, 4096u);
  EXPECT_EQ((*CudaMemory::Open(uuid_, *handle, 4096))->data(), memory->data() + 4096);
}

TEST_F(CudaMemoryTest, MemoryOfAGpuThatIsNotCurrentIsShared) {
  const auto devices = *kernels::ListCudaDevices();
  if (devices.size() < 2) GTEST_SKIP() << "there is one GPU only";
  const auto memory = *CudaMemory::Allocate(devices[1].uuid, 1 << 20);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const auto handle = ExportCudaMemory(memory->data());
  EXPECT_TRUE(handle.ok()) << handle.status();
}

TEST_F(CudaMemoryTest, PoolMemoryIsNotShareable) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocAsync(&memory, 1 << 20, nullptr), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  const auto handle = ExportCudaMemory(memory);
  EXPECT_EQ(ShareFaultOf(handle.status()), ShareFault::kNotShareable) << handle.status();
  EXPECT_THAT(std::string(handle.status().message()), HasSubstr("cudaMalloc"));
  EXPECT_EQ(cudaFreeAsync(memory, nullptr), cudaSuccess);
}

template <typename Function>
Function* Driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  (void)cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
  return reinterpret_cast<Function*>(found);
}

TEST_F(CudaMemoryTest, VirtualMemoryIsNotShareable) {
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);  // makes the context
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  constexpr size_t kBytes = 2 << 20;
  CUmemGenericAllocationHandle physical;
  CUdeviceptr address = 0;
  ASSERT_EQ(Driver<decltype(cuMemCreate)>("cuMemCreate")(&physical, kBytes, &properties, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(Driver<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&address, kBytes, 0, 0, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(Driver<decltype(cuMemMap)>("cuMemMap")(address, kBytes, 0, physical, 0), CUDA_SUCCESS);
  const auto handle = ExportCudaMemory(reinterpret_cast<void*>(address));
  EXPECT_EQ(ShareFaultOf(handle.status()), ShareFault::kNotShareable) << handle.status();
  EXPECT_EQ(Driver<decltype(cuMemUnmap)>("cuMemUnmap")(address, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(Driver<decltype(cuMemRelease)>("cuMemRelease")(physical), CUDA_SUCCESS);
}

TEST_F(CudaMemoryTest, HostMemoryIsNotShareable) {
  int on_stack = 0;
  EXPECT_EQ(ShareFaultOf(ExportCudaMemory(&on_stack).status()), ShareFault::kNotShareable);
}

TEST_F(CudaMemoryTest, HandlesThatAreNoneAreRefused) {
  EXPECT_EQ(ShareFaultOf(CudaMemory::Open(uuid_, {.handle = "short"}, 1).status()),
            ShareFault::kInvalidHandle);
  CudaIpcHandle junk = {.handle = std::string(64, 'x'), .process_id = 1, .pid_namespace = 1};
  EXPECT_NE(ShareFaultOf(CudaMemory::Open(uuid_, junk, 1).status()), ShareFault::kNone);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // nothing is left for the engine's next call
}

TEST_F(CudaMemoryTest, MoreThanTheAllocationHoldsIsRefused) {
  const auto memory = *CudaMemory::Allocate(uuid_, 4 << 20);
  CudaIpcHandle handle = *ExportCudaMemory(memory->data() + (1 << 20));
  EXPECT_TRUE(CudaMemory::Open(uuid_, handle, 3 << 20).ok());
  for (const uint64_t offset : {uint64_t{2} << 20, uint64_t{8} << 20, ~uint64_t{0}}) {
    handle.offset = offset;
    const auto opened = CudaMemory::Open(uuid_, handle, 3 << 20);
    EXPECT_EQ(ShareFaultOf(opened.status()), ShareFault::kInvalidHandle) << offset;
    EXPECT_THAT(opened.status().message(), ::testing::HasSubstr("4194304"));
  }
}

TEST_F(CudaMemoryTest, EqualPidsInTwoNamespacesAreNamed) {
  const CudaIpcHandle handle = {.handle = std::string(64, 'x'),
                                .process_id = ProcessId(),
                                .pid_namespace = PidNamespace() + 1};
  const auto memory = CudaMemory::Open(uuid_, handle, 1);
  EXPECT_EQ(ShareFaultOf(memory.status()), ShareFault::kSamePid);
  EXPECT_THAT(std::string(memory.status().message()), HasSubstr("shareProcessNamespace"));
}

TEST_F(CudaMemoryTest, UnknownDevicesAreNamedAndMigIsRefused) {
  const auto missing = CudaMemory::Allocate("GPU-00000000-0000-0000-0000-000000000000", 1);
  EXPECT_EQ(ShareFaultOf(missing.status()), ShareFault::kNoDevice);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(uuid_));
  const auto mig = kernels::MakeCudaDevice("MIG-00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(mig.status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(CudaMemoryTest, TooLargeASlabSaysWhatIsFree) {
  const auto memory = CudaMemory::Allocate(uuid_, size_t{1} << 42);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.status().message()), HasSubstr("bytes free"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace spin::dataplane
