/* SPDX-FileCopyrightText: The Spin Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The data plane of Spin for engines that are not C++: libspin_kernels.so. It opens a device, maps
 * a slab, and launches Spin's kernels on the engine's stream. The control plane (sessions,
 * requests, policy) is gRPC, proto/spin/v1; it says where in the slab each array lies.
 *
 * Conventions
 *  - Plain C; nothing of the CUDA runtime: a stream is the `void*` behind a cudaStream_t (null is
 *    the default stream; on the CPU device it is ignored), a device pointer is a pointer.
 *  - Every function that can fail returns a spin_code; spin_last_error() then has one sentence that
 *    names the field. Nothing throws, nothing aborts.
 *  - Parameter structs begin with `struct_size`, to be set to their sizeof: fields are only ever
 *    appended, so a library accepts all sizes since its major version's first, and takes what an
 *    older caller has not got as 0. Fields named `reserved` must be 0.
 *  - Structs of device_structs.h lie in memory that the device reads or writes; their layout is
 *    part of spin_layout_version().
 *  - Launches are asynchronous on the given stream, allocate nothing and never wait (on the CPU
 *    device they run to their end). All can be captured in CUDA graphs: rows, lists and lengths are
 *    read when a launch runs, so a captured graph serves every step. Pointers of a launch must stay
 *    valid until the stream has passed it; that they are is the caller's word, the rest is checked.
 *  - Thread-safe, as long as concurrent launches touch different requests. spin_last_error() and
 *    spin_last_share_fault() are per thread. A device must outlive its slabs and launches.
 *
 * Units: a *slot* is one entry of the indexer's key cache, a *block* one page of that cache
 * (`block` slots), a *page* the unit in which Spin's own state grows (SPIN_PAGE_SLOTS slots),
 * `position` the position of a token. One *row* is a request in one decode step, with its next_n
 * verifier rows.
 */
#ifndef SPIN_KERNELS_H_
#define SPIN_KERNELS_H_

#include <stdint.h>

#include "spin/device_structs.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SPIN_API __attribute__((visibility("default")))
#else
#define SPIN_API
#endif

#define SPIN_ABI_VERSION 1 /* of this header; the library's is spin_abi_version() */

/* ---- errors ---- */

/* The numbers of gRPC's status codes. */
typedef int32_t spin_code;
enum {
  SPIN_OK = 0,
  SPIN_INVALID_ARGUMENT = 3,
  SPIN_DEADLINE_EXCEEDED = 4,
  SPIN_NOT_FOUND = 5,
  SPIN_RESOURCE_EXHAUSTED = 8,
  SPIN_FAILED_PRECONDITION = 9,
  SPIN_UNIMPLEMENTED = 12,
  SPIN_INTERNAL = 13,
  SPIN_UNAVAILABLE = 14
};

/* Why spin_slab_map could not map device memory, for those who want to say what to change. */
typedef int32_t spin_share_fault;
enum {
  SPIN_SHARE_OK = 0,
  SPIN_SHARE_NO_DEVICE = 1,      /* this process does not see the GPU */
  SPIN_SHARE_SAME_PID = 2,       /* both processes have one number, in two pid namespaces */
  SPIN_SHARE_NOT_SHAREABLE = 3,  /* memory of a pool or of the virtual memory API */
  SPIN_SHARE_INVALID_HANDLE = 4, /* no handle of CUDA, or of memory that is gone */
  SPIN_SHARE_DRIVER = 5          /* the driver refused; the message says why */
};

/* The library's SPIN_ABI_VERSION. Another number than the header's is another ABI. */
SPIN_API uint32_t spin_abi_version(void);
/* What lies in a slab; equal to Layout.layout_version of a spind that this library can work with.
 */
SPIN_API uint32_t spin_layout_version(void);

/* The message of this thread's last call that failed; "" before the first. Valid until the next
 * call of this thread that fails. */
SPIN_API const char* spin_last_error(void);
/* The fault of this thread's last spin_slab_map. */
SPIN_API spin_share_fault spin_last_share_fault(void);

/* ---- devices and slabs ---- */

typedef struct spin_device spin_device;
typedef struct spin_slab spin_slab;

/* Opens the GPU with this UUID ("GPU-..."; the only visible one if ""), or the CPU ("CPU"), and
 * loads all kernels (about a second for a GPU). The calling thread needs no CUDA context and keeps
 * its own. NOT_FOUND names the visible GPUs, UNAVAILABLE there is none, UNIMPLEMENTED a MIG
 * instance or a build without CUDA. */
SPIN_API spin_code spin_device_open(const char* uuid, spin_device** device);
/* Null is fine. */
SPIN_API void spin_device_close(spin_device* device);
/* As opened; lives as long as the device. "" for null. */
SPIN_API const char* spin_device_uuid(const spin_device* device);

typedef int32_t spin_slab_kind;
enum {
  SPIN_SLAB_POSIX_SHM = 1, /* SlabHandle.posix_shm, for the CPU device */
  SPIN_SLAB_CUDA_IPC = 2   /* SlabHandle.cuda_ipc, for a GPU */
};

/* spin.v1.SlabHandle. */
typedef struct spin_slab_handle {
  uint32_t struct_size;
  spin_slab_kind kind;
  uint64_t bytes;         /* of the slab */
  uint64_t epoch;         /* of the spind that owns it */
  const char* posix_path; /* of the file, else null */
  uint8_t ipc_handle[64]; /* cudaIpcMemHandle_t, else 0 */
  uint64_t ipc_offset;    /* of the slab from the start of the handle's allocation */
  int64_t process_id;     /* of spind, in its pid namespace */
  uint64_t pid_namespace; /* inode of that namespace */
} spin_slab_handle;

/* Maps a slab, and checks that it is the one: layout version, epoch and size. Waits for the device;
 * the first mapping of a GPU's slab takes about 0.1 s. FAILED_PRECONDITION: other memory was
 * mapped, or the two processes can't share. Mappings of one slab in a process share its addresses.
 */
SPIN_API spin_code spin_slab_map(spin_device* device, const spin_slab_handle* handle,
                                 spin_slab** slab);
/* Nothing that was launched may still use it. Null is fine. */
SPIN_API void spin_slab_unmap(spin_slab* slab);
/* Base address: offsets of spin.v1.Layout count from here. Null for null. */
SPIN_API void* spin_slab_data(const spin_slab* slab);
/* What Attach wants to see as proof of the mapping. 0 for null. */
SPIN_API uint64_t spin_slab_nonce(const spin_slab* slab);

/* ---- shapes ---- */

typedef int32_t spin_dtype;
enum { SPIN_F32 = 0, SPIN_BF16 = 1 };

typedef struct spin_geometry {
  int32_t layers;          /* 1 to SPIN_MAX_LAYERS */
  int32_t block;           /* b: 16, 32, 64 or 128 slots */
  int32_t topk;            /* K: 1 to SPIN_MAX_TOPK */
  int32_t tokens_per_slot; /* 1 to 64 */
  spin_dtype state;        /* how the state is stored */
} spin_geometry;

/* Bytes of one state page, a multiple of 256. */
SPIN_API spin_code spin_page_bytes(const spin_geometry* geometry, int64_t* bytes);
/* Bytes of scratch memory, 16-byte aligned, for spin_select and spin_select_and_compact, and for
 * spin_audit with audits, of up to this size on this device. Launches on one stream may share it.
 */
SPIN_API spin_code spin_select_workspace_bytes(const spin_device* device, int32_t layers,
                                               int32_t rows, int32_t max_blocks, int64_t* bytes);
SPIN_API spin_code spin_audit_workspace_bytes(const spin_device* device, int32_t layers,
                                              int32_t rows, int32_t max_blocks, int64_t* bytes);

/* ---- launches ---- */

/* All lists of a session: headers[2][max_requests][layers]; blocks likewise with max_blocks entries
 * each, masks with ceil(max_blocks / 32). A list is used only by those who find the stamp they
 * expect on it: (epoch, generation, next_n, position). */
typedef struct spin_lists {
  spin_list_header* headers;
  int32_t* blocks;
  spin_list_mask* masks;
  int32_t max_requests;
  int32_t max_blocks;
} spin_lists;

/* Element c of verifier row d of row r of layer l is
 * data[l * layer_stride + r * row_stride + d * draft_stride + c]; strides in elements. A launch of
 * one layer l over a buffer that holds that layer alone takes layer_stride 0. */
typedef struct spin_scores {
  const void* data;
  int64_t layer_stride;
  int64_t row_stride;
  int64_t draft_stride;
  spin_dtype dtype;
  uint32_t reserved;
} spin_scores;

/* What all launches over a session have in common. `layer_first`, `layer_count`: the layers of this
 * launch, all of them at the end of a step, or one right after it was scored. */
typedef struct spin_launch {
  spin_geometry geometry;
  int32_t layer_first;
  int32_t layer_count;
  int32_t row_count; /* 0 is fine */
  uint64_t epoch;
  void* slab;
  const spin_request_record* records; /* [lists.max_requests] */
  spin_lists lists;
  const spin_binding* binding; /* or null */
} spin_launch;

/* Block scores from the state: for each block the best score that one of its slots may reach. Only
 * for those who want to see them: spin_select does this itself. */
typedef struct spin_predict_params {
  uint32_t struct_size;
  uint32_t reserved;
  spin_launch launch;   /* lists and binding are not used */
  const spin_row* rows; /* [row_count] */
  int64_t layer_stride; /* of block_scores, in elements */
  float* block_scores;  /* out: row r of layer l at l * layer_stride + r * lists.max_blocks */
} spin_predict_params;
SPIN_API spin_code spin_predict(spin_device* device, const spin_predict_params* params,
                                void* stream);

/* The lists of a step, for rows at its positions. On a GPU it starts on rows, policy,
 * records and binding while the kernel before it on the stream ends: write them by copies, or by a
 * kernel before that one. */
typedef struct spin_select_params {
  uint32_t struct_size;
  uint32_t reserved;
  spin_launch launch;
  const spin_row* rows; /* [row_count] */
  const spin_policy* policy;
  const float* block_scores; /* as spin_predict wrote them, or null: predict too */
  int64_t layer_stride;      /* of block_scores */
  void* workspace;           /* spin_select_workspace_bytes */
} spin_select_params;
SPIN_API spin_code spin_select(spin_device* device, const spin_select_params* params, void* stream);

/* Turns the step's lists into what a stock paged scoring kernel takes:
 *   kept_table[j] = block_table[kept[j]],  kept_slots = slots - block * (blocks - kept)
 * A row whose list does not serve (or which is padding with next_n > 0) keeps all blocks. */
typedef struct spin_compact_params {
  uint32_t struct_size;
  uint32_t reserved;
  spin_launch launch;         /* slab and records are not used */
  const spin_row* rows;       /* [row_count] */
  const int32_t* block_table; /* [row_count][table_stride] physical block of each block */
  int32_t table_stride;
  int32_t next_n_stride; /* at least next_n of every row */
  int32_t* kept_table;   /* out [layers][row_count][table_stride] */
  int32_t*
      kept_slots; /* out [layers][row_count][next_n_stride]: context length of each verifier row */
  int32_t* kept_blocks; /* out [layers][row_count][table_stride] for spin_remap, or null */
  int32_t* unserved;    /* grows by one for each row of a layer whose list did not serve, or null */
} spin_compact_params;
SPIN_API spin_code spin_compact(spin_device* device, const spin_compact_params* params,
                                void* stream);

/* spin_select and, of the same rows, spin_compact in one launch: for lists that are made at the
 * beginning of the step that uses them. Both launches agree in all that they share. Row for row,
 * those of `compact` are those of `select` (request, next_n, position, buffer) or padding, which
 * keeps all blocks, also where a list is made: an audited row. Any other row keeps all blocks, too,
 * and counts in `unserved`. On a GPU it starts on the rows of both as early as spin_select does.
 * Nobody may read the lists before the launch has ended: their stamps are not written last here. */
SPIN_API spin_code spin_select_and_compact(spin_device* device, const spin_select_params* select,
                                           const spin_compact_params* compact, void* stream);

/* Turns indices into a compacted row into slots, in place; negative ones stay. */
typedef struct spin_remap_params {
  uint32_t struct_size;
  int32_t row_count;
  spin_geometry geometry;
  int32_t layer_first;
  int32_t layer_count;
  int32_t table_stride;
  int32_t next_n_stride;
  int32_t topk_stride; /* entries per verifier row */
  const spin_row* rows;
  const int32_t* kept_blocks; /* as spin_compact wrote them */
  int32_t* topk; /* in/out [layer_count][row_count][next_n_stride][topk_stride]: of this launch's
                    layers */
} spin_remap_params;
SPIN_API spin_code spin_remap(spin_device* device, const spin_remap_params* params, void* stream);

/* Scores that came back enter the state. Rows of one launch name different requests. On a GPU it
 * looks rows, records and binding up while the kernel before it on the stream ends: write them by
 * copies, or by a kernel before that one. */
typedef struct spin_observe_params {
  uint32_t struct_size;
  int32_t max_next_n; /* at least next_n of every row */
  spin_launch launch;
  const spin_scored_row* rows; /* [row_count] */
  spin_scores scores;
  spin_ema_weights weights;
  spin_layer_counters* counters; /* [layers] */
} spin_observe_params;
SPIN_API spin_code spin_observe(spin_device* device, const spin_observe_params* params,
                                void* stream);

/* For rows that were scored in full: how much of the true top-K the list would have left out.
 * Before spin_observe. */
typedef struct spin_audit_params {
  uint32_t struct_size;
  uint32_t reserved;
  spin_launch launch;
  const spin_scored_row* rows; /* [row_count] */
  spin_scores scores;
  spin_layer_counters* counters; /* [layers] */
  spin_layer_audits* audits;     /* [layers], or null */
  void* workspace;               /* spin_audit_workspace_bytes; null without audits */
  spin_audit_result* results;    /* out [layers][row_count], or null */
} spin_audit_params;
SPIN_API spin_code spin_audit(spin_device* device, const spin_audit_params* params, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* SPIN_KERNELS_H_ */
