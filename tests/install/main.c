/* SPDX-FileCopyrightText: The Spin Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The same for the C ABI: opens the CPU device.
 */
#include <stdio.h>

#include "spin/kernels.h"

int main(void) {
  spin_device* device = NULL;
  if (spin_device_open("CPU", &device) != SPIN_OK) {
    fprintf(stderr, "%s\n", spin_last_error());
    return 1;
  }
  printf("%s\n", spin_device_uuid(device));
  spin_device_close(device);
  return spin_abi_version() == SPIN_ABI_VERSION ? 0 : 1;
}
