#pragma once
// What a series of blocks says: the median, and between which values the true one lies.

#include <vector>

namespace shmoe::apps {

/// Of a median, with its interval of 95 %.
struct Estimate {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// The interval is by order statistics, so nothing is assumed of the distribution: of n sorted samples those at
/// n/2 -+ 0.98 sqrt(n). Of fewer than six samples it is all of them, which is less than 95 %.
///
/// Errors:  all zero without samples
/// Source:  the distribution-free interval of a median; 0.98 is half the 97.5 % point of the normal distribution
Estimate estimate(std::vector<double> samples);

/// numerator[i] / denominator[i], block by block, so that what disturbs a whole block cancels.
std::vector<double> ratios(const std::vector<double>& numerator, const std::vector<double>& denominator);

/// Within 15 %, what the target of a detour is.
bool is_as_predicted(double gain, double predicted);

}  // namespace shmoe::apps
