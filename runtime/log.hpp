#pragma once
// One line a message, lower case, on stderr: "[shmoe rank 0] warn: turned away a stranger: 127.0.0.1:40312: sent no hello".
// A Log is handed to whoever writes; there is no global one.

#include <iosfwd>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace spdlog {
class logger;
}

namespace shmoe::runtime {

enum class LogLevel : std::uint8_t { trace, debug, info, warn, error };

std::optional<LogLevel> find_log_level(std::string_view name);
std::string_view name_of(LogLevel level);

/// Cheap to copy; copies write to the same place. May be used by several threads.
class Log {
 public:
  /// Messages below `lowest` are dropped. Before a rank is known lines start with "[shmoe]".
  static Log to_stderr(LogLevel lowest, std::optional<Rank> rank = std::nullopt);
  /// The stream outlives the Log and its copies.
  static Log to_stream(std::ostream& out, LogLevel lowest, std::optional<Rank> rank = std::nullopt);

  [[nodiscard]] bool enabled(LogLevel level) const;
  /// Line breaks and other control characters become blanks.
  void write(LogLevel level, std::string_view message) const;

  template <class... Args>
  void debug(fmt::format_string<Args...> text, Args&&... args) const {
    format(LogLevel::debug, text, std::forward<Args>(args)...);
  }
  template <class... Args>
  void info(fmt::format_string<Args...> text, Args&&... args) const {
    format(LogLevel::info, text, std::forward<Args>(args)...);
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> text, Args&&... args) const {
    format(LogLevel::warn, text, std::forward<Args>(args)...);
  }
  template <class... Args>
  void error(fmt::format_string<Args...> text, Args&&... args) const {
    format(LogLevel::error, text, std::forward<Args>(args)...);
  }

 private:
  explicit Log(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}

  template <class... Args>
  void format(LogLevel level, fmt::format_string<Args...> text, Args&&... args) const {
    if (enabled(level)) write(level, fmt::format(text, std::forward<Args>(args)...));
  }

  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace shmoe::runtime
