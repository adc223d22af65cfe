#include "apps/bench/ep_figures.hpp"

#include <algorithm>
#include <limits>

namespace shmoe::apps {
namespace {

constexpr double kMicrosecond = 1e3;  // in nanoseconds

/// span_of: the Lap that a rank noted.
template <class SpanOf>
double wall_of(const Block& block, const SpanOf& span_of) {
  std::int64_t start = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
  for (const BlockRecord& rank : block) {
    const Lap lap = span_of(rank);
    start = std::min(start, lap.start);
    end = std::max(end, lap.end);
  }
  return static_cast<double>(end - start) / kMicrosecond;
}

template <class Figure>
Series series_of(const std::vector<Block>& blocks, const Figure& figure) {
  Series series;
  series.reserve(blocks.size());
  for (const Block& block : blocks) series.push_back(figure(block));
  return series;
}

template <class SpanOf>
Series walls(const std::vector<Block>& blocks, const SpanOf& span_of) {
  return series_of(blocks, [&](const Block& block) { return wall_of(block, span_of); });
}

Lap span_of_part(const Measured& measured, EpPart part) {
  switch (part) {
    case EpPart::dispatch: return measured.dispatch;
    case EpPart::dispatch_consume: return measured.first_read;  // its second span
    case EpPart::combine: return measured.combine;
  }
  return {};
}

/// Two spans with a barrier between them that belongs to neither.
Series sum_of(Series first, const Series& second) {
  for (std::size_t i = 0; i < first.size(); ++i) first[i] += second[i];
  return first;
}

Series copied_us(const std::vector<Block>& blocks, std::size_t kind) {
  return walls(blocks, [kind](const BlockRecord& rank) { return rank.copies[kind]; });
}

Series copied_and_read_us(const std::vector<Block>& blocks, std::size_t kind) {
  return sum_of(copied_us(blocks, kind),
                walls(blocks, [kind](const BlockRecord& rank) { return rank.reads_of_copies[kind]; }));
}

Series read_us(const std::vector<Block>& blocks, std::size_t kind) {
  return walls(blocks, [kind](const BlockRecord& rank) { return rank.reads[kind]; });
}

}  // namespace

Series wall_us(const std::vector<Block>& blocks, std::size_t contender, EpPart part) {
  Series time = walls(blocks, [=](const BlockRecord& rank) { return span_of_part(rank.contenders[contender], part); });
  return part == EpPart::dispatch_consume ? sum_of(wall_us(blocks, contender, EpPart::dispatch), time) : time;
}

Series cpu_us_a_row(const std::vector<Block>& blocks, std::size_t contender, EpPart part, std::int64_t rows) {
  Series cost = series_of(blocks, [=](const Block& block) {
    std::int64_t cpu = 0;
    for (const BlockRecord& rank : block) cpu += span_of_part(rank.contenders[contender], part).cpu;
    return static_cast<double>(cpu) / kMicrosecond / static_cast<double>(std::max<std::int64_t>(rows, 1));
  });
  return part == EpPart::dispatch_consume ? sum_of(cpu_us_a_row(blocks, contender, EpPart::dispatch, rows), cost)
                                          : cost;
}

Series stage_us(const std::vector<Block>& blocks, std::size_t contender, std::size_t stage) {
  return series_of(blocks, [=](const Block& block) {
    std::int64_t longest = 0;
    for (const BlockRecord& rank : block) longest = std::max(longest, rank.contenders[contender].stages[stage]);
    return static_cast<double>(longest) / kMicrosecond;
  });
}

std::vector<Limit> limits_of(const std::vector<Block>& blocks, EpPart part) {
  std::vector<Limit> limits;
  if (part == EpPart::combine) {
    for (std::size_t kind = 0; kind < kReadKinds.size(); ++kind) {
      limits.push_back({kReadNames[kind], read_us(blocks, kind)});
    }
  } else {
    for (std::size_t kind = 0; kind < kCopyKinds.size(); ++kind) {
      limits.push_back(
          {kCopyNames[kind], part == EpPart::dispatch ? copied_us(blocks, kind) : copied_and_read_us(blocks, kind)});
    }
  }
  std::ranges::stable_sort(limits, {}, [](const Limit& limit) { return estimate(limit.us).median; });
  return limits;
}

Series copy_within_us(const std::vector<Block>& blocks) {
  return series_of(blocks, [](const Block& block) {
    std::int64_t longest = 0;
    for (const BlockRecord& rank : block) longest = std::max(longest, rank.copy_within.end - rank.copy_within.start);
    return static_cast<double>(longest) / kMicrosecond;
  });
}

CopyKind fastest_copied_and_read(const std::vector<Block>& blocks) {
  CopyKind fastest = CopyKind::memcpy;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t kind = 0; kind < kCopyKinds.size(); ++kind) {
    const double median = estimate(copied_and_read_us(blocks, kind)).median;
    if (median < least) fastest = kCopyKinds[kind];
    least = std::min(least, median);
  }
  return fastest;
}

bool is_verified(const std::vector<Block>& blocks, std::size_t contender) {
  return std::ranges::all_of(blocks, [=](const Block& block) {
    return std::ranges::all_of(block, [=](const BlockRecord& rank) { return rank.contenders[contender].right == 1; });
  });
}

}  // namespace shmoe::apps
