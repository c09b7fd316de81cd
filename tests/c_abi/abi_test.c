/* SPDX-FileCopyrightText: The Spin Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * spin/kernels.h as C, and what the library says to bad calls. That launches do the right thing is shown
 * in tests/e2e/test_c_abi.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spin/kernels.h"

static int failures = 0;

#define EXPECT(condition)                                                 \
  do {                                                                    \
    if (!(condition)) {                                                   \
      ++failures;                                                         \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);     \
      fprintf(stderr, "  the last error is: %s\n", spin_last_error());    \
    }                                                                     \
  } while (0)

/* Fails with this code, and names the field. */
#define EXPECT_REFUSED(call, code, field) \
  EXPECT((call) == (code) && strstr(spin_last_error(), (field)) != NULL)

static spin_device* cpu = NULL;
static int64_t memory[4096]; /* stands for any array */

static spin_launch launch_of_one_layer(void) {
  spin_launch launch;
  memset(&launch, 0, sizeof launch);
  launch.geometry = (spin_geometry){1, 64, 64, 1, SPIN_F32};
  launch.layer_count = 1;
  launch.slab = memory;
  launch.records = (const spin_request_record*)memory;
  launch.lists = (spin_lists){(spin_list_header*)memory, (int32_t*)memory, (spin_list_mask*)memory, 1, 4};
  return launch;
}

static spin_select_params select_nothing(void) {
  spin_select_params params;
  memset(&params, 0, sizeof params);
  params.struct_size = sizeof params;
  params.launch = launch_of_one_layer();
  params.rows = (const spin_row*)memory;
  params.policy = (const spin_policy*)memory;
  params.workspace = memory;
  return params;
}

static spin_compact_params compact_nothing(void) {
  spin_compact_params params;
  memset(&params, 0, sizeof params);
  params.struct_size = sizeof params;
  params.launch = launch_of_one_layer();
  params.rows = (const spin_row*)memory;
  params.block_table = params.kept_table = params.kept_slots = (int32_t*)memory;
  params.table_stride = params.next_n_stride = 4;
  return params;
}

static void versions_are_those_of_the_header(void) {
  EXPECT(spin_abi_version() == SPIN_ABI_VERSION);
  EXPECT(spin_layout_version() > 0);
}

static void devices_are_found_by_uuid(void) {
  spin_device* device = NULL;
  EXPECT(spin_device_open("CPU", &cpu) == SPIN_OK);
  EXPECT(strcmp(spin_device_uuid(cpu), "CPU") == 0);
  EXPECT_REFUSED(spin_device_open(NULL, &device), SPIN_INVALID_ARGUMENT, "uuid");
  EXPECT_REFUSED(spin_device_open("CPU", NULL), SPIN_INVALID_ARGUMENT, "device");
  EXPECT(spin_device_open("GPU-00000000-0000-0000-0000-000000000000", &device) != SPIN_OK);
  EXPECT(device == NULL);
  EXPECT(strlen(spin_last_error()) > 0);
  EXPECT(strcmp(spin_device_uuid(NULL), "") == 0);
  spin_device_close(NULL);
}

static void sizes_are_told_and_bad_shapes_named(void) {
  int64_t bytes = 0;
  spin_geometry v4_flash = {21, 64, 512, 4, SPIN_BF16};
  EXPECT(spin_page_bytes(&v4_flash, &bytes) == SPIN_OK);
  EXPECT(bytes == 21 * (2 * SPIN_PAGE_SLOTS * 2 + 512));
  EXPECT(spin_select_workspace_bytes(cpu, 21, 8, 2048, &bytes) == SPIN_OK && bytes > 0);
  EXPECT(spin_audit_workspace_bytes(cpu, 21, 8, 2048, &bytes) == SPIN_OK && bytes > 0);
  EXPECT_REFUSED(spin_select_workspace_bytes(NULL, 1, 1, 1, &bytes), SPIN_INVALID_ARGUMENT, "device");
  EXPECT_REFUSED(spin_select_workspace_bytes(cpu, 0, 1, 1, &bytes), SPIN_INVALID_ARGUMENT, "layers");
  EXPECT_REFUSED(spin_select_workspace_bytes(cpu, 1, 1, 0, &bytes), SPIN_INVALID_ARGUMENT, "max_blocks");
  EXPECT_REFUSED(spin_select_workspace_bytes(cpu, 1, 1, 1, NULL), SPIN_INVALID_ARGUMENT, "bytes");
  EXPECT_REFUSED(spin_page_bytes(NULL, &bytes), SPIN_INVALID_ARGUMENT, "geometry");
  v4_flash.block = 48;
  EXPECT_REFUSED(spin_page_bytes(&v4_flash, &bytes), SPIN_INVALID_ARGUMENT, "geometry.block");
  v4_flash.block = 64;
  v4_flash.state = 2;
  EXPECT_REFUSED(spin_page_bytes(&v4_flash, &bytes), SPIN_INVALID_ARGUMENT, "geometry.state");
  v4_flash.state = SPIN_BF16;
  v4_flash.layers = SPIN_MAX_LAYERS + 1;
  EXPECT_REFUSED(spin_page_bytes(&v4_flash, &bytes), SPIN_INVALID_ARGUMENT, "geometry.layers");
}

static void slabs_that_are_none_are_refused(void) {
  spin_slab_handle handle;
  spin_slab* slab = NULL;
  memset(&handle, 0, sizeof handle);
  EXPECT_REFUSED(spin_slab_map(cpu, &handle, &slab), SPIN_INVALID_ARGUMENT, "struct_size");
  handle.struct_size = sizeof handle;
  handle.bytes = 1 << 20;
  EXPECT_REFUSED(spin_slab_map(cpu, &handle, &slab), SPIN_INVALID_ARGUMENT, "handle.kind");
  handle.kind = SPIN_SLAB_POSIX_SHM;
  EXPECT_REFUSED(spin_slab_map(cpu, &handle, &slab), SPIN_INVALID_ARGUMENT, "handle.posix_path");
  handle.posix_path = "/dev/shm/spin-no-such-slab";
  EXPECT_REFUSED(spin_slab_map(cpu, &handle, &slab), SPIN_NOT_FOUND, handle.posix_path);
  EXPECT(spin_last_share_fault() == SPIN_SHARE_OK);
  handle.bytes = 8;
  EXPECT_REFUSED(spin_slab_map(cpu, &handle, &slab), SPIN_INVALID_ARGUMENT, "handle.bytes");
  handle.bytes = 1 << 20;
  handle.kind = SPIN_SLAB_CUDA_IPC;
  EXPECT_REFUSED(spin_slab_map(cpu, &handle, &slab), SPIN_INVALID_ARGUMENT, "handle.kind");
  EXPECT_REFUSED(spin_slab_map(NULL, &handle, &slab), SPIN_INVALID_ARGUMENT, "device");
  EXPECT_REFUSED(spin_slab_map(cpu, NULL, &slab), SPIN_INVALID_ARGUMENT, "handle");
  EXPECT(slab == NULL && spin_slab_data(slab) == NULL && spin_slab_nonce(slab) == 0);
  spin_slab_unmap(NULL);
}

static void launches_name_what_is_wrong(void) {
  spin_select_params params = select_nothing();
  EXPECT(spin_select(cpu, &params, NULL) == SPIN_OK); /* no rows */
  EXPECT_REFUSED(spin_select(NULL, &params, NULL), SPIN_INVALID_ARGUMENT, "device");
  EXPECT_REFUSED(spin_select(cpu, NULL, NULL), SPIN_INVALID_ARGUMENT, "params");
#define EXPECT_BAD(change, field)                                             \
  do {                                                                        \
    params = select_nothing();                                                \
    change;                                                                   \
    EXPECT_REFUSED(spin_select(cpu, &params, NULL), SPIN_INVALID_ARGUMENT, field); \
  } while (0)
  EXPECT_BAD(params.struct_size += 8, "struct_size");
  EXPECT_BAD(params.struct_size -= 8, "struct_size");
  EXPECT_BAD(params.reserved = 1, "reserved");
  EXPECT_BAD(params.rows = NULL, "rows");
  EXPECT_BAD(params.policy = NULL, "policy");
  EXPECT_BAD(params.workspace = NULL, "workspace");
  EXPECT_BAD(params.layer_stride = -1, "layer_stride");
  EXPECT_BAD(params.launch.slab = NULL, "launch.slab");
  EXPECT_BAD(params.launch.lists.masks = NULL, "launch.lists.masks");
  EXPECT_BAD(params.launch.lists.max_blocks = 0, "launch.lists.max_blocks");
  EXPECT_BAD(params.launch.row_count = -1, "launch.row_count");
  EXPECT_BAD(params.launch.layer_first = 1, "layer_first");
  EXPECT_BAD(params.launch.geometry.topk = 0, "geometry.topk");
#undef EXPECT_BAD
}

static void one_launch_of_two_names_where_they_differ(void) {
  spin_binding binding;
  spin_select_params select = select_nothing();
  spin_compact_params compact = compact_nothing();
  EXPECT(spin_select_and_compact(cpu, &select, &compact, NULL) == SPIN_OK); /* no rows */
  EXPECT_REFUSED(spin_select_and_compact(NULL, &select, &compact, NULL), SPIN_INVALID_ARGUMENT, "device");
  EXPECT_REFUSED(spin_select_and_compact(cpu, NULL, &compact, NULL), SPIN_INVALID_ARGUMENT, "select");
  EXPECT_REFUSED(spin_select_and_compact(cpu, &select, NULL, NULL), SPIN_INVALID_ARGUMENT, "compact");
#define EXPECT_BAD(change, field)                                                                          \
  do {                                                                                                     \
    select = select_nothing();                                                                             \
    compact = compact_nothing();                                                                           \
    change;                                                                                                \
    EXPECT_REFUSED(spin_select_and_compact(cpu, &select, &compact, NULL), SPIN_INVALID_ARGUMENT, field);   \
  } while (0)
  EXPECT_BAD(select.struct_size += 8, "select.struct_size");
  EXPECT_BAD(compact.struct_size -= 8, "compact.struct_size");
  EXPECT_BAD(select.rows = NULL, "select.rows");
  EXPECT_BAD(compact.rows = NULL, "compact.rows");
  EXPECT_BAD(select.policy = NULL, "select.policy");
  EXPECT_BAD(select.launch.slab = NULL, "select.launch.slab");
  EXPECT_BAD(compact.kept_slots = NULL, "compact.kept_slots");
  EXPECT_BAD(compact.table_stride = 0, "compact.table_stride");
  EXPECT_BAD(compact.launch.geometry.block = 32, "compact.launch.geometry.block");
  EXPECT_BAD(compact.launch.geometry.topk = 32, "compact.launch.geometry.topk");
  EXPECT_BAD(select.launch.geometry.layers = 2, "compact.launch.geometry.layers");
  EXPECT_BAD(select.launch.row_count = 1, "compact.launch.row_count");
  EXPECT_BAD(compact.launch.epoch = 7, "compact.launch.epoch");
  EXPECT_BAD(compact.launch.lists.blocks += 1, "compact.launch.lists.blocks");
  EXPECT_BAD(compact.launch.lists.max_blocks = 8, "compact.launch.lists.max_blocks");
  EXPECT_BAD(compact.launch.binding = &binding, "compact.launch.binding");
  EXPECT_BAD(compact.launch.geometry.layers = select.launch.geometry.layers = 2; compact.launch.layer_count = 2,
             "compact.launch.layer_count");
  EXPECT_BAD(compact.launch.geometry.layers = select.launch.geometry.layers = 2; compact.launch.layer_first = 1,
             "compact.launch.layer_first");
#undef EXPECT_BAD
  select = select_nothing();
  compact = compact_nothing();
  memset(&binding, 0, sizeof binding);
  select.launch.binding = compact.launch.binding = &binding;
  compact.launch.epoch = 7; /* the binding's holds */
  EXPECT(spin_select_and_compact(cpu, &select, &compact, NULL) == SPIN_OK);
}

static void a_binding_stands_in_for_the_pointers(void) {
  spin_binding binding;
  spin_select_params params = select_nothing();
  memset(&binding, 0, sizeof binding);
  params.launch.binding = &binding;
  params.launch.slab = NULL;
  params.launch.records = NULL;
  params.launch.lists.headers = NULL;
  params.launch.lists.blocks = NULL;
  params.launch.lists.masks = NULL;
  EXPECT(spin_select(cpu, &params, NULL) == SPIN_OK);
}

static void a_longer_message_is_cut(void) {
  spin_slab_handle handle;
  spin_slab* slab = NULL;
  char* path = malloc(1 << 16);
  memset(&handle, 0, sizeof handle);
  memset(path, 'x', 1 << 16);
  path[(1 << 16) - 1] = '\0';
  handle.struct_size = sizeof handle;
  handle.kind = SPIN_SLAB_POSIX_SHM;
  handle.bytes = 1 << 20;
  handle.posix_path = path;
  EXPECT(spin_slab_map(cpu, &handle, &slab) != SPIN_OK);
  EXPECT(strlen(spin_last_error()) > 100 && strlen(spin_last_error()) < 4096);
  free(path);
}

int main(void) {
  versions_are_those_of_the_header();
  EXPECT(strcmp(spin_last_error(), "") == 0);
  devices_are_found_by_uuid();
  sizes_are_told_and_bad_shapes_named();
  slabs_that_are_none_are_refused();
  launches_name_what_is_wrong();
  one_launch_of_two_names_where_they_differ();
  a_binding_stands_in_for_the_pointers();
  a_longer_message_is_cut();
  spin_device_close(cpu);
  return failures == 0 ? 0 : 1;
}
