// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>

#include "kernels/device.h"

// What stands behind the handle of the C ABI.
struct spin_device {
  std::unique_ptr<spin::kernels::Device> device;
  spin::kernels::Stream stream;  // for work outside of the engine's
  std::string uuid;
};
