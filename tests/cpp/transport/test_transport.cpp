// Processes of a job: how they find each other, messages between their devices, collectives across them, and what
// happens when a process ends, fails, is slow or runs something else.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.h"
#include "error_fixture.h"
#include "lowering/collectives/collectives.h"
#include "process_fixture.h"
#include "program_fixture.h"

namespace mydev::transport {
namespace {

using std::chrono::milliseconds;

Subject subject(int64_t from, int64_t to, int64_t operation = 1, uint64_t run = 1, uint64_t program = 7) {
  return {program, run, operation, from, to, "all_reduce"};
}
void send(Processes& processes, const Subject& subject, const std::string& text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  processes.send(subject, {&part, 1});
}
std::string received(Processes& processes, const Subject& subject) {
  const Message message = processes.receive(subject);
  return {reinterpret_cast<const char*>(message.data.get()), message.size};
}
std::string message_of(const Error& error) {
  return error.what();
}
void expect_mentions(const Error& error, mydev_code code, std::initializer_list<const char*> texts) {
  EXPECT_EQ(error.code(), code) << error.what();
  for (const char* text : texts) EXPECT_NE(message_of(error).find(text), std::string::npos) << error.what();
}

TEST(Processes, NumberTheDevicesOfAll) {
  const auto processes = joined({2, 1, 3});
  for (const auto& process : processes) {
    EXPECT_EQ(process->count(), 3);
    EXPECT_EQ(process->process_of(0), 0);
    EXPECT_EQ(process->process_of(2), 1);
    EXPECT_EQ(process->process_of(5), 2);
    EXPECT_EQ(process->process_of(6), -1);
    EXPECT_EQ(process->process_of(-1), -1);
    EXPECT_EQ(process->records()[2].device_kind, "test device");
    EXPECT_EQ(process->records()[1].id, ::getpid());
  }
  EXPECT_EQ(processes[1]->index(), 1);
}

TEST(Processes, ArePutTogetherOfOne) {
  const auto processes = joined({4});
  EXPECT_EQ(processes[0]->process_of(3), 0);
}

TEST(Processes, TakeMessagesInTheOrderInWhichTheyWereSent) {
  const auto processes = joined({1, 1});
  send(*processes[0], subject(0, 1, 1), "first");
  send(*processes[0], subject(0, 1, 2), "");
  send(*processes[0], subject(0, 1, 2), "third");  // of the same operation, as in a loop
  EXPECT_EQ(received(*processes[1], subject(0, 1, 1)), "first");
  EXPECT_EQ(received(*processes[1], subject(0, 1, 2)), "");
  EXPECT_EQ(received(*processes[1], subject(0, 1, 2)), "third");
}

TEST(Processes, SendMuchBeforeTheOthersTakeAny) {
  const auto processes = joined({1, 1});
  const std::string much(64 << 20, 'x');
  send(*processes[0], subject(0, 1), much);
  send(*processes[1], subject(1, 0), much);
  EXPECT_EQ(received(*processes[1], subject(0, 1)), much);
  EXPECT_EQ(received(*processes[0], subject(1, 0)), much);
}

TEST(Processes, NumberRunsByProgramAndDevice) {
  const auto processes = joined({2});
  EXPECT_EQ(processes[0]->next_run(5, 0), 1U);
  EXPECT_EQ(processes[0]->next_run(5, 0), 2U);
  EXPECT_EQ(processes[0]->next_run(5, 1), 1U);
  EXPECT_EQ(processes[0]->next_run(6, 0), 1U);
}

TEST(Processes, SayWhichOneHasEnded) {
  auto processes = joined({1, 1, 1});
  std::thread other([&] { processes[2] = nullptr; });
  expect_mentions(
      error_of([&] { processes[0]->receive(subject(2, 0)); }), MYDEV_UNAVAILABLE,
      {"process 2 of 3 (", ") has ended, and device 0 waits for its device 2 in all_reduce: the connection "});
  other.join();
  expect_mentions(error_of([&] { send(*processes[0], subject(0, 2), "late"); }), MYDEV_UNAVAILABLE,
                  {"process 2 of 3 (", ") has ended: the connection "});
  send(*processes[0], subject(0, 1), "alive");
  EXPECT_EQ(received(*processes[1], subject(0, 1)), "alive");
}

TEST(Processes, GiveWhatWasSentBeforeTheOtherEnded) {
  auto processes = joined({1, 1});
  send(*processes[1], subject(1, 0), "last words");
  processes[1] = nullptr;
  EXPECT_EQ(received(*processes[0], subject(1, 0)), "last words");
}

TEST(Processes, TakeTransfersByTheirKeys) {
  const auto processes = joined({1, 2});
  const std::string first = "first", second = "second";
  processes[0]->send_transfer({0, 2, 5}, std::as_bytes(std::span(first)));
  send(*processes[0], subject(0, 2), "a message");
  processes[0]->send_transfer({0, 2, 6}, std::as_bytes(std::span(second)));
  processes[0]->send_transfer({0, 1, 6}, {});
  const auto taken = [&](const Transfer& transfer) {
    const Message message = processes[1]->receive_transfer(transfer);
    return std::string(reinterpret_cast<const char*>(message.data.get()), message.size);
  };
  EXPECT_EQ(taken({0, 2, 6}), second);
  EXPECT_EQ(taken({0, 1, 6}), "");
  EXPECT_EQ(taken({0, 2, 5}), first);
  EXPECT_EQ(received(*processes[1], subject(0, 2)), "a message");
}

TEST(Processes, SayWhyThereIsNoTransfer) {
  auto processes = joined({1, 1}, milliseconds(50));
  processes[1]->fail_transfer({1, 0, 3}, "out of memory");
  expect_mentions(error_of([&] { processes[0]->receive_transfer({1, 0, 3}); }), MYDEV_ABORTED,
                  {"device 1, of process 1 of 2 (", "has no array for device 0: out of memory"});
  expect_mentions(error_of([&] { processes[0]->receive_transfer({1, 0, 3}); }), MYDEV_DEADLINE_EXCEEDED,
                  {"did not send an array to device 0 within 0.05 seconds", "MYDEV_PROCESS_TIMEOUT"});
  processes[1] = nullptr;
  expect_mentions(
      error_of([&] { processes[0]->receive_transfer({1, 0, 4}); }), MYDEV_UNAVAILABLE,
      {"process 1 of 2 (", ") has ended, and device 0 waits for an array of its device 1: the connection "});
  processes[0]->fail_transfer({0, 1, 1}, "nobody hears this");
}

TEST(Processes, SayThatTheyRunDifferentPrograms) {
  const auto processes = joined({1, 1});
  send(*processes[0], subject(0, 1, 3), "sums");
  send(*processes[1], {8, 2, 1, 1, 0, "all_gather"}, "parts");
  expect_mentions(
      error_of([&] { processes[0]->receive(subject(1, 0, 3)); }), MYDEV_FAILED_PRECONDITION,
      {"device 0 came to all_reduce (operation 3 of run 1 of its program), and device 1, of process 1 of 2 (",
       "to all_gather (operation 1 of run 2 of its program) of another: all processes must run the same"});
  // The error is the same if the other process has cancelled already.
  processes[0]->cancel(7, 1, "another program");
  send(*processes[0], subject(0, 1, 1, 5), "next");
  EXPECT_EQ(error_of([&] { processes[1]->receive({8, 2, 1, 0, 1, "all_gather"}); }).code(), MYDEV_FAILED_PRECONDITION);
  processes[1]->cancel(8, 2, "another program");
  // A later run works as usual.
  EXPECT_EQ(received(*processes[1], subject(0, 1, 1, 5)), "next");
  send(*processes[1], subject(1, 0, 1, 5), "as well");
  EXPECT_EQ(received(*processes[0], subject(1, 0, 1, 5)), "as well");
}

TEST(Processes, TellTheOthersOfARunThatIsCancelled) {
  const auto processes = joined({1, 1});
  send(*processes[1], subject(1, 0), "of no use");
  std::thread other([&] { processes[0]->cancel(7, 1, "device 0 failed"); });
  expect_mentions(error_of([&] { processes[1]->receive(subject(0, 1)); }), MYDEV_ABORTED,
                  {"all_reduce waited for process 0 of 2 (", "in vain: in process 0 of 2 (", "): device 0 failed"});
  other.join();
  // The error is the same if the other process has gone on to something else already.
  send(*processes[0], subject(0, 1, 1, 1, 9), "something else");
  EXPECT_EQ(error_of([&] { processes[1]->receive(subject(0, 1)); }).code(), MYDEV_ABORTED);
  processes[1]->cancel(7, 1, "device 1 failed for that");
  processes[0]->cancel(7, 1, "once more");
  EXPECT_EQ(received(*processes[1], subject(0, 1, 1, 1, 9)), "something else");
  // The next run works as usual.
  for (size_t p : {0, 1})
    send(*processes[p], subject(static_cast<int64_t>(p), 1 - static_cast<int64_t>(p), 1, 2), "next");
  EXPECT_EQ(received(*processes[0], subject(1, 0, 1, 2)), "next");
  EXPECT_EQ(received(*processes[1], subject(0, 1, 1, 2)), "next");
}

TEST(Processes, WaitNoLongerThanTheyMay) {
  const auto processes = joined({1, 1}, milliseconds(200));
  expect_mentions(error_of([&] { processes[0]->receive(subject(1, 0)); }), MYDEV_DEADLINE_EXCEEDED,
                  {"device 1, of process 1 of 2 (",
                   "did not come to all_reduce (operation 1 of run 1 of its program) within "
                   "0.2 seconds; if it may take longer, set MYDEV_PROCESS_TIMEOUT"});
}

TEST(Processes, SayWhichOneDoesNotJoin) {
  MemoryStore store;
  JoinOptions options{.index = 0, .count = 2, .devices = 1, .timeout = milliseconds(100)};
  expect_error(error_of([&] { Processes::join(options, store); }), MYDEV_DEADLINE_EXCEEDED,
               "process 1 has not come: nobody put the key");
}

TEST(Processes, RefuseNumbersAndAddressesThatDoNotFit) {
  MemoryStore store;
  expect_error(error_of([&] { Processes::join({.index = 2, .count = 2}, store); }), MYDEV_INVALID_ARGUMENT,
               "process 2 of 2 is none: they are numbered from 0");
  JoinOptions elsewhere{.index = 0, .count = 2};
  elsewhere.address = "192.0.2.1";  // of nobody
  expect_mentions(error_of([&] { Processes::join(elsewhere, store); }), MYDEV_INVALID_ARGUMENT,
                  {"'192.0.2.1' is no address of this host at which others reach it: "});
  elsewhere.address = "no such host.";
  expect_mentions(error_of([&] { Processes::join(elsewhere, store); }), MYDEV_INVALID_ARGUMENT,
                  {"the address 'no such host.' of a process is not known: "});
}

TEST(Processes, EndTheFirstOfThemLast) {
  auto processes = joined({1, 1});
  send(*processes[0], subject(0, 1), "last words");
  std::thread first([&] { processes[0]->leave(); });
  EXPECT_EQ(received(*processes[1], subject(0, 1)), "last words");
  EXPECT_EQ(error_of([&] { processes[1]->receive(subject(0, 1)); }).code(), MYDEV_UNAVAILABLE);
  processes[1]->leave();
  testing::internal::CaptureStderr();
  processes[0]->leave(milliseconds(50));  // what the other does at its exit after this may need the store
  EXPECT_NE(testing::internal::GetCapturedStderr().find("these have not: process 1 of 2 ("), std::string::npos);
  processes[1] = nullptr;
  first.join();
}

TEST(Processes, EndWithoutThoseThatTakeTooLong) {
  for (const milliseconds timeout : {milliseconds(-1), milliseconds(50)}) {
    auto processes = joined({1, 1, 1}, timeout);
    processes[2] = nullptr;
    testing::internal::CaptureStderr();
    processes[0]->leave(milliseconds(50));
    const std::string line = testing::internal::GetCapturedStderr();
    EXPECT_NE(line.find("WARNING: process 0 of 3 ("), std::string::npos) << line;
    EXPECT_NE(line.find("has waited 0.05 seconds for the others to end; it ends now, although these have not: "
                        "process 1 of 3 ("),
              std::string::npos)
        << line;
    EXPECT_EQ(line.find("process 2 of 3"), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
  }
}

// The connections end with the process that made them, and not with those that it forked off.
TEST(Processes, EndAlthoughAForkLives) {
  auto processes = joined({1, 1});
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(gate[1]);
    char byte = 0;
    ::_exit(::read(gate[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(gate[0]);
  processes[1] = nullptr;
  EXPECT_EQ(error_of([&] { processes[0]->receive(subject(1, 0)); }).code(), MYDEV_UNAVAILABLE);
  ::close(gate[1]);
  ::waitpid(child, nullptr, 0);
}

TEST(Socket, LetsGoOfWhoDoesNotKnowTheToken) {
  class Intruded final : public KeyValueStore {
   public:
    void put(const std::string& key, const std::string& value) override {
      store_.put(key, value);
      if (key.back() != '0') return;
      std::vector<std::string> lines(1);
      for (const char c : value) c == '\n' ? lines.emplace_back() : lines.back() += c, void();
      stranger_ = Socket::connect_to(lines[5], static_cast<uint16_t>(std::stoi(lines[6])), kNoDeadline);
      const std::string noise(44, '\1');
      stranger_.send(std::as_bytes(std::span(noise)), kNoDeadline);
    }
    std::string get(const std::string& key, milliseconds timeout) override { return store_.get(key, timeout); }

   private:
    MemoryStore store_;
    Socket stranger_;
  } store;
  std::shared_ptr<Processes> first, second;
  std::thread other([&] { second = Processes::join({.index = 1, .count = 2, .devices = 1}, store); });
  first = Processes::join({.index = 0, .count = 2, .devices = 1}, store);
  other.join();
  send(*first, subject(0, 1), "between us");
  EXPECT_EQ(received(*second, subject(0, 1)), "between us");
}

// Puts a record whose line `wrong` is `text` in the place of process 1's.
struct WrongRecord final : KeyValueStore {
  size_t wrong;
  std::string text;
  MemoryStore store;

  WrongRecord(size_t line, std::string given) : wrong(line), text(std::move(given)) {}
  void put(const std::string& key, const std::string& value) override {
    store.put(key, value);
    std::string record;
    std::istringstream lines(value);
    std::string line;
    for (size_t i = 0; std::getline(lines, line); ++i) record += (i == wrong ? text : line) + '\n';
    store.put("wrong", record);
  }
  std::string get(const std::string& key, milliseconds timeout) override {
    return store.get(key.back() == '1' ? "wrong" : key, timeout);
  }
};

TEST(Join, NamesTheProcessWhoseRecordHasNoNumber) {
  for (const auto& [line, text] :
       {std::pair{1U, "many"}, {1U, "-2"}, {6U, "70000"}, {6U, "99999999999999999999"}, {7U, ""}}) {
    WrongRecord store(line, text);
    expect_error(error_of([&] { Processes::join({.index = 0, .count = 2, .devices = 1}, store); }),
                 MYDEV_INVALID_ARGUMENT, "the record of process 1 has '" + std::string(text) + "' where a number");
  }
}

// --- collectives -----------------------------------------------------------------------------------------------------

using lowering::Collectives;

// The stream of a device of the program, on the one device of this process.
Stream& stream_of(int64_t device) {
  static std::array<Stream*, 4> streams = {&stream_from_pool(0, 0), &stream_from_pool(0, 0), &stream_from_pool(0, 0),
                                           &stream_from_pool(0, 0)};
  return *streams.at(static_cast<size_t>(device));
}

// Calls `body` for each device, on a thread of its own.
void on_all_devices(size_t count, const std::function<void(int64_t device)>& body) {
  std::vector<std::thread> threads;
  for (size_t d = 0; d < count; ++d) threads.emplace_back(body, static_cast<int64_t>(d));
  for (std::thread& thread : threads) thread.join();
}

// Returns the sums of the numbers that the group brings, on one device of the program.
std::vector<float> sums(Collectives& collectives, int64_t device, std::span<const int> group,
                        const std::vector<float>& brought, int64_t operation = 1) {
  Stream& stream = stream_of(device);
  const auto count = static_cast<int64_t>(brought.size());
  const program::DeviceArray<float> values(brought, stream);
  const auto rank = static_cast<int>(std::ranges::find(group, static_cast<int>(device)) - group.begin());
  const collectives::Communicator all(collectives, group, rank,
                                      {collectives.run_of(stream).run, operation, "all_reduce"});
  all.all_reduce(stream, values.binding().data, values.binding().data, MYDEV_F32, count, "mydev.add");
  return values.read(stream);
}

TEST(CollectivesOfProcesses, CombineWhatAllBringInOneOrder) {
  const auto processes = joined({2, 1, 1});
  const std::vector<int64_t> of_process = {0, 0, 1, 2};
  std::vector<std::unique_ptr<Collectives>> collectives;
  for (const auto& process : processes) {
    collectives.push_back(std::make_unique<Collectives>(4, lowering::SeveralProcesses{process, {0, 1, 2, 3}}));
  }
  const std::vector<int> all = {3, 1, 0, 2}, outer = {0, 3}, inner = {1, 2};
  std::vector<std::vector<float>> of_all(4), of_pairs(4);
  on_all_devices(4, [&](int64_t device) {
    const auto d = static_cast<size_t>(device);
    Collectives& own = *collectives[static_cast<size_t>(of_process[d])];
    for (int run = 0; run < 20; ++run) {
      own.begin(device, stream_of(device), own.next_run(device));
      const std::vector<float> brought(100, 0.1F * static_cast<float>(device + 1) + static_cast<float>(run));
      of_all[d] = sums(own, device, all, brought);
      of_all[d] = sums(own, device, all, of_all[d]);  // of the same operation, as in a loop
      of_pairs[d] = sums(own, device, device == 0 || device == 3 ? outer : inner, brought, 2);
    }
  });
  for (size_t d = 1; d < 4; ++d) EXPECT_EQ(of_all[d], of_all[0]);
  EXPECT_EQ(of_pairs[0], of_pairs[3]);
  EXPECT_FLOAT_EQ(of_pairs[0][0], 0.1F + 0.4F + 38);
  EXPECT_FLOAT_EQ(of_pairs[1][7], 0.2F + 0.3F + 38);
}

TEST(CollectivesOfProcesses, RaiseWhereADeviceOfAnotherProcessFails) {
  const auto processes = joined({2, 1});
  Collectives here(3, {processes[0], {0, 1, 2}}), there(3, {processes[1], {0, 1, 2}});
  const std::vector<int> all = {0, 1, 2};
  std::vector<std::string> messages(2);
  on_all_devices(3, [&](int64_t device) {
    Collectives& own = device == 2 ? there : here;
    const uint64_t run = own.next_run(device);
    own.begin(device, stream_of(device), run);
    if (device == 2) return own.cancel(run, "device 2 failed");
    const Error error = error_of([&] { sums(own, device, all, {1.0F}); });
    EXPECT_EQ(error.code(), MYDEV_ABORTED);
    messages[static_cast<size_t>(device)] = error.what();
    own.cancel(run, error.what());  // as the executable does, which releases the other device of the process
  });
  for (const std::string& message : messages) EXPECT_NE(message.find("device 2 failed"), std::string::npos) << message;
}

TEST(CollectivesOfProcesses, RaiseWhereAnotherBringsOtherSizes) {
  const auto processes = joined({1, 1});
  Collectives here(2, {processes[0], {0, 1}}), there(2, {processes[1], {0, 1}});
  const std::vector<int> both = {0, 1};
  on_all_devices(2, [&](int64_t device) {
    Collectives& own = device == 0 ? here : there;
    own.begin(device, stream_of(device), own.next_run(device));
    const std::vector<float> brought(device == 0 ? 2 : 3);
    expect_mentions(error_of([&] { sums(own, device, both, brought); }), MYDEV_FAILED_PRECONDITION,
                    {device == 0 ? "process 1 brings 12 bytes to all_reduce, and 8 are expected"
                                 : "process 0 brings 8 bytes to all_reduce, and 12 are expected"});
  });
}

}  // namespace
}  // namespace mydev::transport
