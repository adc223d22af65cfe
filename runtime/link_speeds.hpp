#pragma once
// Which ranks a rank can write to, and how fast.
//
//   # four ranks; what is not named has no limit, and a later line wins
//   ranks 4
//   * * 8000      # MB/s from every rank to every other one
//   0 1 50        # MB/s from rank 0 to rank 1
//   2 1 none      # no link

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::runtime {

class LinkSpeeds {
 public:
  /// All links, none with a limit.
  explicit LinkSpeeds(std::int32_t ranks) : ranks_(ranks), speeds_(static_cast<std::size_t>(ranks * ranks), kNoLimit) {}

  /// Errors:  invalid_argument with `name` and the line
  static Result<LinkSpeeds> parse(std::string_view text, std::string_view name);
  /// Of a file.
  /// Errors:  as parse; invalid_argument where it is no regular file; io
  static Result<LinkSpeeds> load(const std::string& path);

  [[nodiscard]] std::int32_t ranks() const { return ranks_; }
  /// Of the file, for messages.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Units:   bytes a second; 0 is no link
  void set(Rank from, Rank to, double speed) { speeds_[index(from, to)] = speed; }
  [[nodiscard]] bool exists(Rank from, Rank to) const { return speeds_[index(from, to)] > 0; }
  /// Units:   seconds; none where the link has no limit, or leads to the own memory
  /// Errors:  a broken contract where there is no link
  [[nodiscard]] double seconds(Rank from, Rank to, Bytes size) const;
  /// Equal for equal links.
  [[nodiscard]] std::uint64_t digest() const;

 private:
  static constexpr double kNoLimit = 1e300;
  friend std::string to_string(const LinkSpeeds& links);
  [[nodiscard]] std::size_t index(Rank from, Rank to) const {
    SHMOE_EXPECTS(from.index() < static_cast<std::size_t>(ranks_) && to.index() < static_cast<std::size_t>(ranks_),
                  "a link from rank {} to rank {} of {}", from, to, ranks_);
    return from.index() * static_cast<std::size_t>(ranks_) + to.index();
  }

  std::int32_t ranks_;
  std::vector<double> speeds_;
  std::string name_ = "the links";
};

/// In the words of a file, each link that has a limit, or is none, in a line.
std::string to_string(const LinkSpeeds& links);

}  // namespace shmoe::runtime
