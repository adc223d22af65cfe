// One rank under a real launcher: says in one line what it found out. usage: bootstrap_probe [TIMEOUT_MS]

#include <cstdio>
#include <cstdlib>

#include "bootstrap/rendezvous.hpp"

using namespace shmoe;
using namespace shmoe::bootstrap;

namespace {

Result<std::string> meet(const Environment& environment, std::chrono::milliseconds timeout) {
  const auto launch = detect_launch(environment);
  if (!launch) return launch.error();
  const auto endpoint = choose_endpoint({}, environment, *launch);
  if (!endpoint) return endpoint.error();
  ExchangeConfig config;
  config.launch = *launch;
  config.endpoint = *endpoint;
  config.timeout = timeout;
  auto exchange = SocketExchange::connect(config);
  if (!exchange) return exchange.error();
  auto mine = id_card_of_this_process();
  if (!mine) return mine.error();
  mine->agreements = {{"cores", environment("SHMOE_CORES").value_or("1")}};
  const auto cards = exchange_cards(*exchange, *mine);
  if (!cards) return cards.error();
  if (auto agreed = agree(*exchange, {}, "end"); !agreed) return agreed.error();
  return fmt::format("rank {} of {} by {} through {}: {} cards, {} node", launch->rank, launch->size, launch->launcher,
                     endpoint->source, cards->size(), node_count(*cards));
}

}  // namespace

int main(int count, char** arguments) {
  const std::chrono::milliseconds timeout{count > 1 ? std::atoi(arguments[1]) : 30'000};
  const auto met = meet(process_environment(), timeout);
  std::puts(met ? met->c_str() : to_string(met.error()).c_str());
  return 0;
}
