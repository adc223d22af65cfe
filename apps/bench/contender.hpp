#pragma once
// One way to dispatch and to combine, on one rank. All of them end with the same bytes at the same places.

#include <cstddef>
#include <span>
#include <string_view>

#include "apps/bench/stopwatch.hpp"
#include "shmem/result.hpp"

namespace shmoe::apps {

/// Stages [0, dispatch) belong to dispatch, the rest to combine.
struct Stages {
  std::span<const char* const> names;
  std::size_t dispatch = 0;
};

class Contender {
 public:
  Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// In the names of rows.
  [[nodiscard]] virtual std::string_view key() const = 0;
  [[nodiscard]] virtual Stages stages() const = 0;

  /// From routing and tokens to expert-major rows: everything that has to be done for a new routing.
  virtual Result<void> dispatch(StageTimes& times) = 0;
  /// Of the last dispatch.
  [[nodiscard]] virtual std::span<std::byte> received() = 0;
  /// Of int8 rows.
  [[nodiscard]] virtual std::span<const float> scales() { return {}; }

  /// From the answers of the experts to weighted sums.
  virtual Result<void> combine(StageTimes& times) = 0;
  /// Where the experts' answers are read from, as many rows as were received: filled once by the caller.
  [[nodiscard]] virtual std::span<std::byte> answers() = 0;
  /// Of the last combine.
  [[nodiscard]] virtual std::span<std::byte> combined() = 0;
};

}  // namespace shmoe::apps
