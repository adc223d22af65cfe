#pragma once
// The two figures a series of times is reported by.

#include <algorithm>
#include <cmath>
#include <vector>

namespace shmoe::apps {

/// The smallest sample that at least `share` of the samples do not exceed; 0 without samples.
inline double quantile(std::vector<double> samples, double share) {
  if (samples.empty()) return 0;
  const auto count = static_cast<double>(samples.size());
  const auto rank = static_cast<std::ptrdiff_t>(std::clamp(std::ceil(share * count), 1.0, count)) - 1;
  std::nth_element(samples.begin(), samples.begin() + rank, samples.end());
  return samples[static_cast<std::size_t>(rank)];
}

inline double median(std::vector<double> samples) { return quantile(std::move(samples), 0.5); }
inline double p99(std::vector<double> samples) { return quantile(std::move(samples), 0.99); }

}  // namespace shmoe::apps
