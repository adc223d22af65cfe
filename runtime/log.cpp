#include "runtime/log.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace shmoe::runtime {
namespace {

constexpr std::array<std::string_view, 5> kNames{"trace", "debug", "info", "warn", "error"};

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::trace: return spdlog::level::trace;
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::shared_ptr<spdlog::logger> logger_over(spdlog::sink_ptr sink, LogLevel lowest, std::optional<Rank> rank) {
  auto logger = std::make_shared<spdlog::logger>(rank ? fmt::format("shmoe rank {}", *rank) : "shmoe", std::move(sink));
  logger->set_level(level_of(lowest));
  logger->flush_on(spdlog::level::trace);
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>("[%n] %v", spdlog::pattern_time_type::utc, "\n"));
  return logger;
}

}  // namespace

std::optional<LogLevel> find_log_level(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<LogLevel>(found - kNames.begin());
}

std::string_view name_of(LogLevel level) { return kNames[static_cast<std::size_t>(level)]; }

Log Log::to_stderr(LogLevel lowest, std::optional<Rank> rank) {
  return Log{logger_over(std::make_shared<spdlog::sinks::stderr_sink_mt>(), lowest, rank)};
}

Log Log::to_stream(std::ostream& out, LogLevel lowest, std::optional<Rank> rank) {
  return Log{logger_over(std::make_shared<spdlog::sinks::ostream_sink_mt>(out), lowest, rank)};
}

bool Log::enabled(LogLevel level) const { return logger_->should_log(level_of(level)); }

void Log::write(LogLevel level, std::string_view message) const {
  std::string line = fmt::format("{}: {}", name_of(level), message);
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  logger_->log(level_of(level), line);
}

}  // namespace shmoe::runtime
