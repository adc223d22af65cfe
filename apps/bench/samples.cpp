#include "apps/bench/samples.hpp"

#include <algorithm>
#include <cmath>

#include "shmem/result.hpp"

namespace shmoe::apps {

Estimate estimate(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const auto count = static_cast<double>(samples.size());
  const auto at = [&](double rank) { return samples[static_cast<std::size_t>(std::clamp(rank, 1.0, count)) - 1]; };
  const double half = 0.98 * std::sqrt(count);
  const double median = (at(std::floor((count + 1) / 2)) + at(std::ceil((count + 1) / 2))) / 2;
  return {.median = median, .low = at(std::floor(count / 2 - half)), .high = at(std::ceil(count / 2 + 1 + half))};
}

std::vector<double> ratios(const std::vector<double>& numerator, const std::vector<double>& denominator) {
  SHMOE_EXPECTS(numerator.size() == denominator.size(), "{} and {} samples", numerator.size(), denominator.size());
  std::vector<double> quotients;
  quotients.reserve(numerator.size());
  for (std::size_t i = 0; i < numerator.size(); ++i) {
    quotients.push_back(denominator[i] > 0 ? numerator[i] / denominator[i] : 0);
  }
  return quotients;
}

bool is_as_predicted(double gain, double predicted) { return std::abs(gain / predicted - 1) <= 0.15; }

}  // namespace shmoe::apps
