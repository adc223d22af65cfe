#pragma once
// The first half of rank 0: lets the members of the job in and turns everybody else away.

#include <array>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "bootstrap/detail/star.hpp"

namespace shmoe::bootstrap::detail {

/// One connection, from accept on.
struct Guest {
  Guest(tcp::socket s, asio::io_context& io) : socket(std::move(s)), patience(io) {}
  tcp::socket socket;
  asio::steady_timer patience;
  std::array<std::byte, kHelloBytes> hello{};
  std::array<std::byte, 1> watch{};
  std::string address;
  bool gone = false;
};

class Door {
 public:
  Door(asio::io_context& io, tcp::acceptor acceptor, const ExchangeConfig& config, const Secret& secret);

  /// Every rank has arrived, or one error that all who came have been told.
  Result<void> wait_for_all();
  /// By rank; rank 0 has none.
  std::vector<std::shared_ptr<Guest>> take_members() { return std::move(members_); }
  [[nodiscard]] std::vector<std::string> strangers() const;

 private:
  using GuestPtr = std::shared_ptr<Guest>;

  void accept_next();
  void on_accept(const ErrorCode& code, tcp::socket socket);
  void greet(const GuestPtr& guest);
  void judge(const GuestPtr& guest);
  void turn_away(const GuestPtr& guest, std::string why);
  void refuse(const GuestPtr& guest);
  std::optional<Error> fault_of(const Guest& guest, const Hello& hello) const;
  void admit(const GuestPtr& guest, const Hello& hello);
  void watch(const GuestPtr& guest, std::int32_t rank);
  void fail(Error error);
  void tell(const GuestPtr& guest, std::optional<std::int32_t> rank, const Error& error);
  [[nodiscard]] Error missing() const;
  [[nodiscard]] std::string turned_away() const;
  [[nodiscard]] bool everyone_told() const;
  void close();

  asio::io_context& io_;
  tcp::acceptor acceptor_;
  tcp::endpoint peer_;  // of the next connection
  asio::steady_timer retry_;
  const ExchangeConfig& config_;
  Secret secret_;
  Clock::time_point start_;
  Clock::time_point limit_;
  std::vector<GuestPtr> members_;
  std::list<GuestPtr> visitors_;  // not yet known, oldest first
  std::int32_t arrived_ = 1;
  std::string hurry_;  // whose limit ends the wait before our own
  std::optional<Error> failure_;
  std::set<std::int32_t> told_;
  std::list<GuestPtr> being_told_;
  std::vector<std::string> strangers_;
  std::size_t unnamed_strangers_ = 0;
};

}  // namespace shmoe::bootstrap::detail
