// An exchange moves bytes between the members of a group of devices. All operations of a Communicator are made of
// exchanges and kernels; a backend is one way to exchange.
//
// Transfers between the same two members that have the same key are matched in the order in which each side gives them,
// so both sides give them in one order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/api.h"

namespace mydev {
class Stream;
}

namespace mydev::collectives {

// The bytes that go to a member, or come from it.
struct Transfer {
  int peer;
  void* data;  // of the stream's device
  uint64_t bytes;
};

// Transfers of another key are not matched. A run can be cancelled.
struct ExchangeKey {
  uint64_t run = 0;
  int64_t operation = 0;
  std::string_view name;  // of the operation, for people
};

class MYDEV_API Exchange {
 public:
  virtual ~Exchange() = default;
  // Gives the stream all these transfers of member `self`. Waits until the other members have come to them, but not for
  // the device. When the stream has done them, the data that were sent may be written again. Raises ABORTED if the run
  // is cancelled, and the errors of the backend. Several threads may call it, each for a member of its own.
  virtual void exchange(Stream& stream, const ExchangeKey& key, int self, std::span<const Transfer> sends,
                        std::span<const Transfer> receives) = 0;
};

}  // namespace mydev::collectives
