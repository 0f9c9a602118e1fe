// The processes of a job, connected each with each, and the messages between their devices.
//
// Devices are numbered over all processes. A message goes from one device to another. Messages between the same two
// come in the order in which they were sent. A device that comes to an operation takes the next message of each other
// device of its group, which must be of the same operation. If it is of another, the processes run different programs,
// and both sides say so. If a process ends, or breaks its connection, the others know at once. If it does not come to
// where others wait for it, they know after the timeout.
//
// Transfers are apart from messages: bytes from one device to another, which both name by a key.
//
// A thread for each other process takes messages in, so that sending never waits for the other side's computation.
// Thread-safe. Threads and connections end with the object.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/api.h"
#include "transport/key_value_store.h"
#include "transport/socket.h"

namespace mydev::transport {

// The data that processes know of each other.
struct ProcessRecord {
  int64_t devices = 0;
  std::string device_kind;
  std::string host;     // its name, for people
  std::string machine;  // the same where processes reach each other at the loopback address
  std::string address;
  uint16_t port = 0;
  int64_t id = 0;     // of the operating system
  std::string token;  // that a connection to it must begin with
};

struct JoinOptions {
  int index = 0, count = 1;  // which of how many processes this is
  int64_t devices = 0;       // that it brings
  std::string device_kind;
  std::string address;                    // of this host; "": the loopback address, for processes of one machine
  std::chrono::milliseconds timeout{-1};  // that others may take, now and later; less than 0: as long as it takes
};

// The subject of a message. The operations of a run of a program are numbered, alike in all processes.
struct Subject {
  uint64_t program = 0, run = 0;
  int64_t operation = 0;
  int64_t from = 0, to = 0;  // devices
  std::string name;          // of the operation, for people
};

struct Message {
  Subject subject;
  std::unique_ptr<std::byte[]> data;
  size_t size = 0;
};

// A transfer from device to device, and its key. Transfers of one key are taken in the order in which they were sent.
struct Transfer {
  int64_t from = 0, to = 0;
  uint64_t key = 0;
  auto operator<=>(const Transfer&) const = default;
};

class MYDEV_API Processes {
 public:
  static constexpr std::chrono::minutes kLongestLeave{10};

  // Puts this process's record into the store, waits for those of the others, and connects. Raises INVALID_ARGUMENT for
  // numbers and addresses that do not fit, DEADLINE_EXCEEDED, and the store's errors, naming the process that is
  // missing.
  static std::shared_ptr<Processes> join(const JoinOptions& options, KeyValueStore& store);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int index() const noexcept { return index_; }
  int count() const noexcept { return static_cast<int>(records_.size()); }
  const std::vector<ProcessRecord>& records() const noexcept { return records_; }
  // Returns the process of a device; -1: no process has it.
  int process_of(int64_t device) const noexcept;

  // The number of the next run of a program by a device of this process, from 1 on, whoever compiled it how often.
  uint64_t next_run(uint64_t program, int64_t device);
  // Sends the parts, one behind the other. Raises UNAVAILABLE, naming the process, if it has ended.
  void send(const Subject& subject, std::span<const std::span<const std::byte>> parts);
  // Waits for the message of this subject. Raises UNAVAILABLE if the process has ended, ABORTED if the run was
  // cancelled, FAILED_PRECONDITION if the device is at something else, DEADLINE_EXCEEDED.
  Message receive(const Subject& subject);
  // Sends bytes to a device of another process, which takes them by the same key, once. Raises as send() does.
  void send_transfer(const Transfer& transfer, std::span<const std::byte> data);
  // Sends, in their place, why there are none. A process that has ended is told nothing.
  void fail_transfer(const Transfer& transfer, const std::string& why);
  // Waits for these bytes. Raises ABORTED with why there are none, UNAVAILABLE if the process has ended,
  // DEADLINE_EXCEEDED.
  Message receive_transfer(const Transfer& transfer);
  // Cancels a run: no device of this process will come to its end. Calls that wait in it, here or elsewhere, raise
  // ABORTED.
  void cancel(uint64_t program, uint64_t run, const std::string& why);
  // Called before this process ends. For the others, a process has ended when its connections have. The first process
  // counts as ended from now on. It then waits until the others have ended, since the store may be in it, and its end
  // would end others that still use the store. It waits no longer than the timeout, or `longest` in a job without one.
  // A warning names the processes that have not ended by then. Does nothing in a forked process, nor in others than the
  // first.
  void leave(std::chrono::milliseconds longest = kLongestLeave);

 private:
  struct Peer {
    Socket socket;
    std::mutex sending;
    std::string failure;  // why it is gone; "": it is not
    std::thread reader;
  };
  struct Header;
  using Run = std::pair<uint64_t, uint64_t>;  // program and run
  struct Cancelled {
    std::string why;
    bool here = false;  // by this process: what others sent for it is of no use
  };

  Processes(const JoinOptions& options, std::vector<ProcessRecord> records, std::vector<Socket> sockets);
  Deadline deadline() const;
  std::string describe(int process) const;
  void read(int process);
  void take(int process, const Header& header, const std::vector<std::byte>& text, Message message);
  void send_frame(int process, const Header& header, std::span<const std::span<const std::byte>> parts);
  // `text` says why there are no data.
  void send_transfer_frame(const Transfer& transfer, const std::string& text, std::span<const std::byte> data);
  void fail(int process, const std::string& why);
  bool remember_cancelled(Run run, std::string why, bool here);  // whether that is new

  const int index_;
  const std::chrono::milliseconds timeout_;
  const std::vector<ProcessRecord> records_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by process; that of this one is not connected

  std::mutex mutex_;  // guards what follows, and failures of peers
  std::condition_variable changed_;
  bool ending_ = false;
  std::map<std::pair<int64_t, int64_t>, std::deque<Message>> messages_;  // by both devices
  std::multimap<Transfer, Message> transfers_;
  std::map<std::pair<uint64_t, int64_t>, uint64_t> runs_;  // by program and device
  std::map<Run, Cancelled> cancelled_;
  std::deque<Run> cancelled_in_order_;
};

}  // namespace mydev::transport
