/* SPDX-FileCopyrightText: The Spin Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * What launches of spin/kernels.h find in memory of the device: in the slab, or where the caller
 * put it. The layout is part of spin_layout_version().
 */
#ifndef SPIN_DEVICE_STRUCTS_H_
#define SPIN_DEVICE_STRUCTS_H_

#include <stdint.h>

#define SPIN_PAGE_SLOTS 4096
#define SPIN_MAX_LAYERS 128
#define SPIN_MAX_TOPK 2048
#define SPIN_MAX_NEXT_N 8
#define SPIN_MAX_PAGES 1024 /* of one request: 4 Mi slots */
#define SPIN_PADDING_ROW UINT32_MAX
#define SPIN_MISS_BUCKETS 11
#define SPIN_RANK_BINS 256

/* A request in the slab; written by spind alone. generation 0: free. */
typedef struct spin_request_record {
  uint32_t generation;
  uint32_t page_count;
  uint64_t key_hash;
  uint32_t pages[SPIN_MAX_PAGES]; /* offsets from the slab's base, in units of 256 bytes */
} spin_request_record;

/* A row to predict for, or whose list is to be compacted. */
typedef struct spin_row {
  uint32_t request;    /* index of its record, or SPIN_PADDING_ROW: a row to skip */
  uint32_t next_n;     /* 1 to SPIN_MAX_NEXT_N; 0 only in padding rows */
  int64_t position;    /* of the first verifier row */
  uint32_t buffer;     /* 0 or 1: which of the request's two lists; alternate from step to step */
  uint32_t generation; /* RequestHandle.generation */
} spin_row;

enum {
  SPIN_COVERS_ALL = 0, /* scores of every block, in order: element c is slot c */
  SPIN_COVERS_KEPT =
      1 /* of the kept blocks, compacted: element c is slot kept[c / b] * b + c % b */
};

/* A row whose scores have come back. */
typedef struct spin_scored_row {
  uint32_t request;   /* or SPIN_PADDING_ROW */
  uint32_t next_n;    /* verifier rows that were scored */
  int64_t position;   /* of the first verifier row */
  uint32_t accepted;  /* of those rows, how many enter the state; 0 to next_n */
  uint32_t buffer;    /* 0 or 1, also if all is covered: that holds the list of this row */
  uint32_t coverage;  /* SPIN_COVERS_ALL or SPIN_COVERS_KEPT */
  uint32_t score_row; /* index of the row in the score tensor */
} spin_scored_row;

/* Weights of the moving averages for decay alpha: float(alpha), float(1 - alpha). */
typedef struct spin_ema_weights {
  float past;
  float now;
} spin_ema_weights;

/* spin.v1.Policy as the kernels read it. */
typedef struct spin_policy {
  double sparsity[SPIN_MAX_LAYERS]; /* in [0, 1): share of blocks to skip, per layer */
  double exploration;               /* in [0, 1]: share of the kept blocks drawn at random */
  double decay;                     /* alpha in [0, 1) */
  uint64_t seed;
  uint32_t audit_every;     /* the kernels do not read it */
  uint32_t pin_first_block; /* 1 keeps block 0 always */
} spin_policy;

typedef struct spin_list_header {
  uint64_t epoch;
  uint32_t generation;
  uint32_t next_n;
  int64_t position;
  int32_t count;  /* blocks in the list, ascending */
  int32_t blocks; /* of the context */
  int32_t pinned;
  int32_t predicted;
  int32_t explored;
  uint32_t cut; /* of spin_select's own use */
} spin_list_header;

typedef struct spin_list_mask {
  uint32_t kept; /* bit i: block 32 * word + i is in the list */
  uint32_t rank; /* list entries before this word */
} spin_list_mask;

/* Totals that only grow, see proto/spin/v1. */
typedef struct spin_layer_counters {
  uint64_t considered_blocks;
  uint64_t predicted_blocks;
  uint64_t explored_blocks;
  uint64_t pinned_blocks;
  uint64_t full_blocks;
  uint64_t scored_slots;
  uint64_t nonfinite_scores;
  uint64_t audited_rows;
  uint64_t audit_topk_slots;
  uint64_t audit_missed_slots;
} spin_layer_counters;

/* What audits find out beyond the counters; totals that only grow, see proto/spin/v1. */
typedef struct spin_layer_audits {
  uint64_t blocks;                       /* of the contexts of audited rows */
  uint64_t list_blocks;                  /* of the lists that would have been used */
  uint64_t miss_rows[SPIN_MISS_BUCKETS]; /* audited rows by the share that was missed */
  uint64_t rank_slots[SPIN_RANK_BINS];   /* true top-K slots by the rank of their block */
} spin_layer_audits;

typedef struct spin_audit_result {
  int32_t topk;
  int32_t missed;
} spin_audit_result;

/* For launches in a captured graph: what may change between two replays beside the rows. A session
 * that was opened anew lies elsewhere, while the addresses in the graph stay. A launch whose
 * `binding` is not null (memory of the device, written on the stream before the launch runs) takes
 * these values from there when it runs; its own `slab`, `records`, `counters`, list pointers,
 * `epoch` and `weights` are ignored and may be null, and of its `audits` only counts whether they
 * are null. */
typedef struct spin_binding {
  void* slab;
  const spin_request_record* records;
  spin_layer_counters* counters;
  spin_layer_audits* audits;
  spin_list_header* headers;
  int32_t* blocks;
  spin_list_mask* masks;
  uint64_t epoch;
  spin_ema_weights weights;
  void* staging; /* null: the sidecar executor alone uses it */
} spin_binding;

#endif /* SPIN_DEVICE_STRUCTS_H_ */
