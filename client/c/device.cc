// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/c/device.h"

#include "absl/strings/str_cat.h"
#include "client/c/arguments.h"
#include "client/c/outcome.h"
#include "dataplane/slab_header.h"
#include "kernels/cuda_device.h"
#include "kernels/state.h"
#include "spin/kernels.h"

namespace spin::c_abi {
namespace {

absl::Status Open(const char* uuid, spin_device** out) {
  if (uuid == nullptr) return Bad("uuid", "is null; \"\" is the only visible GPU");
  if (out == nullptr) return Bad("device", "is null");
  auto device =
      uuid == kernels::kCpuUuid ? kernels::MakeCpuDevice() : kernels::MakeCudaDevice(uuid);
  if (!device.ok()) return device.status();
  const auto stream = (*device)->MakeStream();
  if (!stream.ok()) return stream.status();
  const std::string name((*device)->uuid());
  *out = new spin_device{*std::move(device), *stream, name};
  return absl::OkStatus();
}

absl::Status PageBytes(const spin_geometry* geometry, int64_t* bytes) {
  if (geometry == nullptr) return Bad("geometry", "is null");
  if (bytes == nullptr) return Bad("bytes", "is null");
  const auto checked = GeometryOf(*geometry);
  if (!checked.ok()) return checked.status();
  *bytes = kernels::PageBytes(*checked);
  return absl::OkStatus();
}

using WorkspaceBytesOf = int64_t (kernels::Device::*)(int32_t, int32_t, int32_t) const;

absl::Status WorkspaceBytes(WorkspaceBytesOf ask, const spin_device* device, int32_t layers,
                            int32_t rows, int32_t max_blocks, int64_t* bytes) {
  if (device == nullptr) return Bad("device", "is null");
  if (bytes == nullptr) return Bad("bytes", "is null");
  absl::Status status = CheckRange("layers", layers, 1, kernels::kMaxLayers);
  status.Update(CheckRange("rows", rows, 1, kMostRows));
  status.Update(CheckRange("max_blocks", max_blocks, 1, kernels::kMaxBlocks));
  if (!status.ok()) return status;
  *bytes = ((*device->device).*ask)(layers, rows, max_blocks);
  return absl::OkStatus();
}

}  // namespace
}  // namespace spin::c_abi

using spin::c_abi::Guarded;
using spin::kernels::Device;

extern "C" {

uint32_t spin_abi_version(void) { return SPIN_ABI_VERSION; }
uint32_t spin_layout_version(void) { return spin::dataplane::kLayoutVersion; }

spin_code spin_device_open(const char* uuid, spin_device** device) {
  return Guarded([&] { return spin::c_abi::Open(uuid, device); });
}

void spin_device_close(spin_device* device) { delete device; }

const char* spin_device_uuid(const spin_device* device) {
  return device == nullptr ? "" : device->uuid.c_str();
}

spin_code spin_page_bytes(const spin_geometry* geometry, int64_t* bytes) {
  return Guarded([&] { return spin::c_abi::PageBytes(geometry, bytes); });
}

spin_code spin_select_workspace_bytes(const spin_device* device, int32_t layers, int32_t rows,
                                      int32_t max_blocks, int64_t* bytes) {
  return Guarded([&] {
    return spin::c_abi::WorkspaceBytes(&Device::SelectWorkspaceBytes, device, layers, rows,
                                       max_blocks, bytes);
  });
}

spin_code spin_audit_workspace_bytes(const spin_device* device, int32_t layers, int32_t rows,
                                     int32_t max_blocks, int64_t* bytes) {
  return Guarded([&] {
    return spin::c_abi::WorkspaceBytes(&Device::AuditWorkspaceBytes, device, layers, rows,
                                       max_blocks, bytes);
  });
}

}  // extern "C"
