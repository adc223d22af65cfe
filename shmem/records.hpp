#pragma once
// What a rank writes about itself in its `.ctl` segment, for peers and inspectors to read.
//
//   +0     header      4 KiB     identity of the segment; version last
//          per communicator block:
//          wait records  128 B x (C + 1)   one per core, then the host thread
//          ledger         64 B x entries   one per (destination, slot) this rank may write
//
// Readers never tear: a wait record is a sequence lock, a ledger entry has one writer.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shmem/layout.hpp"
#include "shmem/signal.hpp"

namespace shmoe::shmem {

/// 32 bytes of text as four atomic words, so that a racing reader sees old or new words and never undefined behaviour.
struct alignas(8) RecordText {
  std::atomic<std::uint64_t> words[4];

  void store(const char* text, std::uint32_t number) {
    char buffer[32] = {};
    std::memcpy(buffer, text, std::min<std::size_t>(std::strlen(text), 27));
    std::memcpy(buffer + 28, &number, sizeof number);
    for (std::size_t i = 0; i < 4; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, buffer + 8 * i, 8);
      words[i].store(word, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] std::string text() const {
    char buffer[32];
    load(buffer);
    buffer[27] = '\0';
    return buffer;
  }
  [[nodiscard]] std::uint32_t number() const {
    char buffer[32];
    load(buffer);
    std::uint32_t number = 0;
    std::memcpy(&number, buffer + 28, sizeof number);
    return number;
  }

 private:
  void load(char* buffer) const {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint64_t word = words[i].load(std::memory_order_relaxed);
      std::memcpy(buffer + 8 * i, &word, 8);
    }
  }
};

/// One actor's current wait. `epoch` is odd while it waits and grows on entry and on exit.
struct alignas(128) WaitRecord {
  std::atomic<std::uint64_t> epoch;
  std::atomic<std::uint64_t> value;  // expected
  std::atomic<std::uint64_t> round;
  std::atomic<std::int64_t> since_ns;
  std::atomic<std::uint32_t> slot;   // the first slot that is not satisfied
  std::atomic<std::uint32_t> count;  // slots in the wait
  std::atomic<std::int32_t> where;   // rank whose memory is polled
  std::atomic<std::uint8_t> match;
  std::atomic<std::uint8_t> compare;
  std::atomic<std::uint8_t> life;  // Life
  std::uint8_t reserved;
  std::atomic<std::uint64_t> progress;  // operators entered and left
  std::atomic<std::uint64_t> challenge;
  std::atomic<std::uint64_t> echo;
  char op[24];  // written before `progress` moves; empty between operators
  RecordText site;
};
static_assert(sizeof(WaitRecord) == 128);
static_assert(offsetof(WaitRecord, slot) == 32);
static_assert(offsetof(WaitRecord, progress) == 48);
static_assert(offsetof(WaitRecord, op) == 72);
static_assert(offsetof(WaitRecord, site) == 96);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

enum class Life : std::uint8_t { absent, running, parked, ended };

/// What this rank last wrote to one (destination, slot).
struct alignas(64) LedgerEntry {
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint64_t> round;
  std::atomic<std::uint32_t> core;
  std::uint32_t reserved;
  RecordText site;
};
static_assert(sizeof(LedgerEntry) == 64);
static_assert(offsetof(LedgerEntry, site) == 32);

inline constexpr std::uint64_t kControlHeaderBytes = 4096;

/// The start of a `.ctl`. A reader that sees the version sees the rest.
struct ControlHeader {
  std::int32_t rank;
  std::int32_t ranks;
  std::int64_t pid;
  std::uint64_t memory_bytes;
  std::atomic<std::uint32_t> version;  // written last
};
static_assert(sizeof(ControlHeader) <= kControlHeaderBytes);
static_assert(offsetof(ControlHeader, version) == 24);

/// Where one communicator's block of a `.ctl` lies, relative to the first block.
struct ControlMap {
  std::int32_t cores = 1;
  std::uint32_t ledger_entries = 0;

  [[nodiscard]] constexpr Bytes size() const {
    return Bytes{round_up(
        sizeof(WaitRecord) * (static_cast<std::uint64_t>(cores) + 1) + sizeof(LedgerEntry) * ledger_entries, 4096)};
  }
  [[nodiscard]] WaitRecord& record(std::byte* block, Core core) const {
    return *reinterpret_cast<WaitRecord*>(block + sizeof(WaitRecord) * core.index());
  }
  [[nodiscard]] LedgerEntry& ledger(std::byte* block, std::uint32_t index) const {
    return *reinterpret_cast<LedgerEntry*>(block + sizeof(WaitRecord) * (static_cast<std::uint64_t>(cores) + 1) +
                                           sizeof(LedgerEntry) * index);
  }
};

}  // namespace shmoe::shmem
