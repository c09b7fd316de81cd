// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/doctor/check.h"
#include "client/cli/terminal/numbers.h"

namespace spin::cli {
namespace {

constexpr uint64_t kLittleSharedMemory = 256ull << 20;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Where spind puts the slab of the CPU device: in a pod the sidecar's environment tells.
std::string SlabFolder() {
  const char* variable = std::getenv("SPIND_SHM_DIR");
  return variable != nullptr && *variable != '\0' ? variable : "/dev/shm";
}

// /dev/shm of a container has 64 MiB unless told otherwise. What a running spind needs of the
// folder it has already.
Check SharedMemoryCheck(const v1::ServerInfo* server) {
  const std::string folder = SlabFolder();
  struct statvfs info = {};
  if (statvfs(folder.c_str(), &info) != 0) {
    return {"slab folder", Outcome::kWarn, absl::StrCat(folder, " is not there"),
            "the CPU device needs it, or another --shm-dir"};
  }
  const uint64_t size = uint64_t{info.f_blocks} * info.f_frsize;
  const uint64_t left = uint64_t{info.f_bavail} * info.f_frsize;
  const std::string found =
      absl::StrCat(folder, ": ", FormatBytes(left), " of ", FormatBytes(size), " free");
  if (server != nullptr || left >= kLittleSharedMemory) {
    return {"slab folder", Outcome::kOk, found, ""};
  }
  return {"slab folder", Outcome::kWarn, found,
          "the slab of the CPU device must fit; in a pod, mount an emptyDir of medium Memory into "
          "both containers and name it as --shm-dir (the chart does), or lower slab.size"};
}

// CUDA IPC refuses a peer of the same process number, which two containers easily have: both are 1.
Check ProcessCheck(const v1::ServerInfo* server) {
  if (server == nullptr) return {"processes", Outcome::kSkipped, "needs a spind that answers", ""};
  std::string name;
  std::ifstream(absl::StrCat("/proc/", server->process_id(), "/comm")) >> name;
  if (name == "spind") return {"processes", Outcome::kOk, "we share a process namespace", ""};
  const bool gpu = server->device_uuid() != "CPU";
  return {"processes", gpu ? Outcome::kFail : Outcome::kWarn,
          "spind is in another process namespace: its number may be the engine's too",
          "set shareProcessNamespace: true in the pod (the chart does); CUDA IPC fails between two "
          "processes of one number"};
}

// Whether the driver shows us GPUs, but not this one.
bool OtherGpus(const std::string& uuid) {
  std::error_code error;
  bool any = false;
  for (std::filesystem::directory_iterator gpu("/proc/driver/nvidia/gpus", error), end;
       !error && gpu != end; gpu.increment(error)) {
    std::ifstream information(gpu->path() / "information");
    const std::string text(std::istreambuf_iterator<char>(information), {});
    if (absl::StrContains(text, uuid)) return false;
    any = true;
  }
  return any;
}

Check DeviceCheck(const v1::ServerInfo* server) {
  const bool gpu_here = Exists("/dev/nvidiactl");
  if (server == nullptr) {
    return {"device", Outcome::kInfo,
            gpu_here ? "this machine has an NVIDIA GPU" : "no NVIDIA GPU here", ""};
  }
  if (server->device_uuid() != "CPU" && OtherGpus(server->device_uuid())) {
    return {"device", Outcome::kFail,
            absl::StrCat("spind serves ", server->device_uuid(), ", which is not visible here"),
            "give both containers one GPU: gpu.mode: dra in the chart's values, or the same "
            "NVIDIA_VISIBLE_DEVICES"};
  }
  if (server->device_uuid() != "CPU") {
    return {"device", Outcome::kOk, absl::StrCat("spind serves ", server->device_uuid()),
            gpu_here ? "" : "this shell does not see that GPU; the engine must"};
  }
  if (!gpu_here) return {"device", Outcome::kOk, "spind serves the CPU device", ""};
  return {"device", Outcome::kWarn, "spind serves the CPU device, but this machine has a GPU",
          "for an engine on that GPU start spind with --device cuda"};
}

// The control daemon leaves its process number beside its pipe.
bool DaemonRuns(const std::string& pipe) {
  pid_t pid = 0;
  std::ifstream(absl::StrCat(pipe, "/nvidia-cuda-mps-control.pid")) >> pid;
  return pid > 0 && Exists(absl::StrCat("/proc/", pid));
}

Check MpsCheck(const v1::ServerInfo* server) {
  const bool gpu = server != nullptr && server->device_uuid() != "CPU";
  if (!gpu) return {"MPS", Outcome::kInfo, "only matters to the sidecar executor on a GPU", ""};
  const char* variable = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string pipe = variable != nullptr && *variable != '\0' ? variable : "/tmp/nvidia-mps";
  struct stat info = {};
  if (stat(pipe.c_str(), &info) == 0 && info.st_uid != geteuid() && geteuid() != 0) {
    return {"MPS", Outcome::kFail,
            absl::StrCat("its pipe at ", pipe, " is user ", info.st_uid, "'s, we are ", geteuid()),
            "MPS serves one user: run engine, sidecar and daemon as the same (runAsUser)"};
  }
  if (DaemonRuns(pipe)) {
    return {
        "MPS", Outcome::kOk, absl::StrCat("its daemon runs, with its pipe at ", pipe),
        "the sidecar executor is fast with it; but a spind killed in the middle of a kernel then "
        "takes the engine with it, which never happens with the inline executor, the default"};
  }
  if (Exists(pipe)) {
    return {"MPS", Outcome::kInfo,
            absl::StrCat("a pipe at ", pipe, ", but no daemon that can be seen from here"),
            "it may run in another container; else start nvidia-cuda-mps-control -d before engine "
            "and sidecar"};
  }
  return {"MPS", Outcome::kInfo, absl::StrCat("nothing at ", pipe),
          "the sidecar executor needs MPS to be fast: without it spind takes turns with the engine "
          "on the GPU; use the inline executor, or mps.enabled in the chart's values"};
}

}  // namespace

std::vector<Check> CheckHost(const v1::ServerInfo* server) {
  return {SharedMemoryCheck(server), ProcessCheck(server), DeviceCheck(server), MpsCheck(server)};
}

}  // namespace spin::cli
