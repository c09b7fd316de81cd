// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

// How a thread block shares the blocks of a row: in tiles of 32, a contiguous range of them for
// each warp and one block of each for every lane.
namespace spin::kernels::internal {

// A pointer that nvcc takes as it is: it would compute it anew from what it is made of, all the
// time.
template <typename T>
__device__ inline T* Opaque(T* pointer) {
  asm volatile("" : "+l"(pointer));
  return pointer;
}

// Starts to fetch a line of memory. What is read later is what is there then, so this may come
// before the kernel before has ended.
__device__ inline void PrefetchToL2(const void* line) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

// Without a branch.
__device__ inline void StoreIf(bool wanted, int32_t* at, int32_t value) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %0, 0;"
      " @p st.global.b32 [%1], %2; }" ::"r"(uint32_t{wanted}),
      "l"(at), "r"(value)
      : "memory");
}

// The tiles of one warp, 32 blocks each: whole pages of two tiles, but for the last one.
struct Tiles {
  int32_t first;
  int32_t end;
};

template <int kWarps>
__device__ inline Tiles TilesOf(int32_t blocks) {
  const int32_t tiles = (blocks + 31) / 32;
  const int32_t each = (tiles + 2 * kWarps - 1) / (2 * kWarps) * 2;
  const int32_t first = min(tiles, static_cast<int32_t>(threadIdx.x / 32) * each);
  return {first, min(tiles, first + each)};
}

// The keys of a lane, one for each tile of its warp, in registers: for rows of at most kEach tiles
// a warp.
template <int kEach>
class RegisterKeys {
 public:
  static constexpr int kMostTiles = kEach;
  static constexpr int kGroup = kEach < 8 ? kEach : 8;

  __device__ explicit RegisterKeys(std::byte*) {}

  // Keys of a lane, also past the last tile.
  __device__ static int32_t Count(Tiles) { return kEach; }

  // make(i, out) makes the keys of kGroup tiles from the i-th of the warp on, in ascending order.
  template <typename Make>
  __device__ void MakeEach(Tiles tiles, const Make& make) {
#pragma unroll
    for (int i = 0; i < kEach; i += kGroup) {
      uint32_t group[kGroup];
      make(i, group);
#pragma unroll
      for (int k = 0; k < kGroup; ++k) keys_[i + k] = group[k];
    }
  }
  // use(i, key) with the i-th tile of the warp may change the key.
  template <typename Use>
  __device__ void ForEach(Tiles, const Use& use) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) use(i, keys_[i]);
  }

 private:
  uint32_t keys_[kEach];
};

// The same in memory.
template <int kMost>
class MemoryKeys {
 public:
  static constexpr int kMostTiles = kMost;
  static constexpr int kGroup = 4;

  __device__ explicit MemoryKeys(std::byte* at) : keys_(reinterpret_cast<uint32_t*>(at)) {}

  __device__ static int32_t Count(Tiles tiles) { return tiles.end - tiles.first; }

  template <typename Make>
  __device__ void MakeEach(Tiles tiles, const Make& make) {
    for (int i = 0; i < tiles.end - tiles.first; i += kGroup) {
      uint32_t group[kGroup];
      make(i, group);
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        if (tiles.first + i + k < tiles.end) At(tiles.first + i + k) = group[k];
      }
    }
  }
  template <typename Use>
  __device__ void ForEach(Tiles tiles, const Use& use) {
    for (int i = 0; i < tiles.end - tiles.first; ++i) {
      uint32_t key = At(tiles.first + i);
      use(i, key);
      At(tiles.first + i) = key;
    }
  }

 private:
  __device__ uint32_t& At(int32_t tile) { return keys_[tile * 32 + threadIdx.x % 32]; }

  uint32_t* keys_;
};

// A bit for each block of the warp's tiles. Lane l holds the word of tile l, so that the warp
// counts and ranks all tiles at once.
template <int kMostTiles>
class TileBits {
 public:
  // All lanes, with the same arguments.
  __device__ void Set(int tile, uint32_t bits) {
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if (tile == 32 * k + Lane()) words_[k] = bits;
    }
  }
  __device__ uint32_t Get(int tile) const { return OfTile(words_, tile); }
  // How many bits are set, in all lanes.
  __device__ uint32_t Count() const {
    uint32_t count = 0;
#pragma unroll
    for (int k = 0; k < kWords; ++k) count += __popc(words_[k]);
    return __reduce_add_sync(~0u, count);
  }
  // How many are set before the lane's tile, of those of each word.
  __device__ void Ranks(uint32_t first, uint32_t (&ranks)[(kMostTiles + 31) / 32]) const {
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      const uint32_t own = __popc(words_[k]);
      uint32_t sum = own;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const uint32_t other = __shfl_up_sync(~0u, sum, step);
        if (Lane() >= step) sum += other;
      }
      ranks[k] = first + sum - own;
      first += __shfl_sync(~0u, sum, 31);
    }
  }
  // Clears all but the first `most`, of which `before` were counted before the first tile.
  __device__ void KeepFirst(uint32_t before, uint32_t most) {
    uint32_t ranks[kWords];
    Ranks(before, ranks);
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if (ranks[k] >= most) words_[k] = 0;
      // One word at most has some to clear.
      while (ranks[k] + __popc(words_[k]) > most && words_[k] != 0) {
        words_[k] &= ~(0x80000000u >> __clz(words_[k]));
      }
    }
  }
  __device__ void Add(const TileBits& other) {
#pragma unroll
    for (int k = 0; k < kWords; ++k) words_[k] |= other.words_[k];
  }
  __device__ uint32_t Word(int k) const { return words_[k]; }

  static constexpr int kWords = (kMostTiles + 31) / 32;

  // What the lane of this tile has in `words`.
  __device__ static uint32_t OfTile(const uint32_t (&words)[kWords], int tile) {
    uint32_t word = words[0];
#pragma unroll
    for (int k = 1; k < kWords; ++k) word = tile / 32 == k ? words[k] : word;
    return __shfl_sync(~0u, word, tile % 32);
  }

 private:
  __device__ static int Lane() { return static_cast<int>(threadIdx.x % 32); }

  uint32_t words_[kWords] = {};
};

}  // namespace spin::kernels::internal
