// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/doctor/check.h"
#include "client/cli/terminal/numbers.h"

namespace spin::cli {
namespace {

constexpr uint64_t kLittleSharedMemory = 256ull << 20;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// A container has 64 MiB of it unless told otherwise.
Check SharedMemoryCheck() {
  struct statvfs info = {};
  if (statvfs("/dev/shm", &info) != 0) {
    return {"/dev/shm", Outcome::kWarn, "not there", "the CPU device needs it, or --shm-dir"};
  }
  const uint64_t size = uint64_t{info.f_blocks} * info.f_frsize;
  const uint64_t left = uint64_t{info.f_bavail} * info.f_frsize;
  const std::string found = absl::StrCat(FormatBytes(left), " of ", FormatBytes(size), " free");
  if (left >= kLittleSharedMemory) return {"/dev/shm", Outcome::kOk, found, ""};
  return {
      "/dev/shm", Outcome::kWarn, found,
      "the slab of the CPU device must fit; in a pod, mount a larger emptyDir of medium Memory"};
}

Check DeviceCheck(const v1::ServerInfo* server) {
  const bool gpu_here = Exists("/dev/nvidiactl");
  if (server == nullptr) {
    return {"device", Outcome::kInfo,
            gpu_here ? "this machine has an NVIDIA GPU" : "no NVIDIA GPU here", ""};
  }
  if (server->device_uuid() != "CPU") {
    return {"device", Outcome::kOk, absl::StrCat("spind serves ", server->device_uuid()),
            gpu_here ? "" : "this shell does not see that GPU; the engine must"};
  }
  if (!gpu_here) return {"device", Outcome::kOk, "spind serves the CPU device", ""};
  return {"device", Outcome::kWarn, "spind serves the CPU device, but this machine has a GPU",
          "for an engine on that GPU start spind with --device cuda"};
}

Check MpsCheck(const v1::ServerInfo* server) {
  const bool gpu = server != nullptr && server->device_uuid() != "CPU";
  if (!gpu) return {"MPS", Outcome::kInfo, "only matters to the sidecar executor on a GPU", ""};
  const char* variable = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string pipe = variable != nullptr && *variable != '\0' ? variable : "/tmp/nvidia-mps";
  if (Exists(pipe)) return {"MPS", Outcome::kOk, absl::StrCat("its pipe is at ", pipe), ""};
  return {"MPS", Outcome::kInfo, absl::StrCat("nothing at ", pipe),
          "without MPS the sidecar executor takes turns with the engine on the GPU; use the inline "
          "executor, or start nvidia-cuda-mps-control -d"};
}

}  // namespace

std::vector<Check> CheckHost(const v1::ServerInfo* server) {
  return {SharedMemoryCheck(), DeviceCheck(server), MpsCheck(server)};
}

}  // namespace spin::cli
