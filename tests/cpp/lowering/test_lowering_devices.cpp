// Programs for several devices, lowered and run: collectives that wait for each other, shardings, and computations by
// hand.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "lowering/collectives/collectives.h"
#include "lowering/sharding/hlo_sharding.h"
#include "lowering/sharding/sharding.h"
#include "lowering_fixture.h"

namespace mydev::lowering {
namespace {

// Runs the program on each of its devices, each on a thread with a stream of its own. Returns the values of the first
// result.
std::vector<std::vector<float>> run_on_devices(const std::string& text, const std::vector<std::vector<float>>& given,
                                               size_t count) {
  const stablehlo::Module module = module_of(text);
  const LoweredProgram lowered = lower(module, Devices{.partitions = std::ssize(given)});
  std::vector<std::vector<float>> results(given.size());
  std::vector<std::thread> threads;
  for (size_t d = 0; d < given.size(); ++d) {
    Stream& stream = stream_from_pool(static_cast<int>(d) % device_count(), 0);
    threads.emplace_back([&, d] {
      const DeviceArray<float> argument(given[d], stream), result(std::vector<float>(count), stream);
      program::Executor executor(lowered.program, stream, program::caching_allocator_for(stream), program::Arena::kKept,
                                 static_cast<uint32_t>(d));
      (*lowered.collectives)->begin(static_cast<int64_t>(d), stream, 5);
      executor.run(stream, std::vector<program::Binding>{argument.binding()},
                   std::vector<program::Binding>{result.binding()});
      results[d] = result.read(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::string collective(const std::string& operation, const std::string& attributes, const std::string& body,
                       const std::string& from, const std::string& to) {
  return function("%x: " + from, to,
                  "%0 = \"stablehlo." + operation + "\"(%x) " +
                      (body.empty() ? ""
                                    : "({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n" + body +
                                          "\nstablehlo.return %r : tensor<f32>\n}) ") +
                      "{" + attributes + "} : (" + from + ") -> " + to + "\nreturn %0 : " + to);
}
const std::string kGroups = "replica_groups = dense<[[0, 2, -1], [1, -1, -1]]> : tensor<2x3xi64>",
                  kAll = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>";
constexpr const char *kAdd = "%r = stablehlo.add %a, %b : tensor<f32>",
                     *kAddTwice = "%s = stablehlo.add %a, %b : tensor<f32>\n%r = stablehlo.add %s, %b : tensor<f32>";
using Results = std::vector<std::vector<float>>;

TEST(Collectives, ReduceByKernelsAndByOtherBodies) {
  const Results given = {{1, 2}, {10, 20}, {100, 200}};
  const auto run = [&](const char* body) {
    return run_on_devices(collective("all_reduce", kGroups, body, "tensor<2xf32>", "tensor<2xf32>"), given, 2);
  };
  EXPECT_EQ(run(kAdd), (Results{{101, 202}, {10, 20}, {101, 202}}));
  EXPECT_EQ(run(kAddTwice), (Results{{201, 402}, {10, 20}, {201, 402}}));
}

TEST(Collectives, ScatterAlongAnyDimension) {
  const Results given = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  const auto run = [&](const std::string& dimension, const char* body, const char* to) {
    return run_on_devices(collective("reduce_scatter", kAll + ", scatter_dimension = " + dimension + " : i64", body,
                                     "tensor<2x2xf32>", to),
                          given, 2);
  };
  EXPECT_EQ(run("0", kAdd, "tensor<1x2xf32>"), (Results{{11, 22}, {33, 44}}));
  EXPECT_EQ(run("1", kAdd, "tensor<2x1xf32>"), (Results{{11, 33}, {22, 44}}));
  EXPECT_EQ(run("1", kAddTwice, "tensor<2x1xf32>"), (Results{{21, 63}, {42, 84}}));
}

TEST(Collectives, GatherAndExchangeAlongAnyDimension) {
  const Results given = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  const auto gathered = [&](const std::string& dimension, const char* to) {
    return run_on_devices(
        collective("all_gather", kAll + ", all_gather_dim = " + dimension + " : i64", "", "tensor<2x2xf32>", to), given,
        8)[1];
  };
  EXPECT_EQ(gathered("0", "tensor<4x2xf32>"), (std::vector<float>{1, 2, 3, 4, 10, 20, 30, 40}));
  EXPECT_EQ(gathered("1", "tensor<2x4xf32>"), (std::vector<float>{1, 2, 10, 20, 3, 4, 30, 40}));
  EXPECT_EQ(run_on_devices(collective("all_to_all",
                                      kAll + ", split_dimension = 1 : i64, concat_dimension = 0 : i64, "
                                             "split_count = 2 : i64",
                                      "", "tensor<2x2xf32>", "tensor<4x1xf32>"),
                           given, 4),
            (Results{{1, 3, 10, 30}, {2, 4, 20, 40}}));
}

TEST(Collectives, PermuteAndBroadcast) {
  const Results given = {{1}, {10}, {100}};
  EXPECT_EQ(
      run_on_devices(collective("collective_permute", "source_target_pairs = dense<[[0, 1], [2, 2]]> : tensor<2x2xi64>",
                                "", "tensor<1xf32>", "tensor<1xf32>"),
                     given, 1),
      (Results{{0}, {1}, {100}}));
  EXPECT_EQ(run_on_devices(collective("collective_broadcast", "replica_groups = dense<[[2, 1, 0]]> : tensor<1x3xi64>",
                                      "", "tensor<1xf32>", "tensor<1xf32>"),
                           given, 1),
            (Results{{100}, {100}, {100}}));
}

TEST(Collectives, RaiseOnAStreamWithoutARun) {
  Collectives collectives(2);
  expect_error(error_of([&] { collectives.run_of(default_stream(0)); }), MYDEV_FAILED_PRECONDITION,
               "on a stream that was given no run of several devices");
}

TEST(Collectives, AreSharedByProgramsWithTheSameRendezvous) {
  const auto first = std::make_shared<Collectives>(2), second = std::make_shared<Collectives>(2);
  EXPECT_EQ(Collectives::shared("devices 0 and 1, a sum of f32[4]", first), first);
  EXPECT_EQ(Collectives::shared("devices 0 and 1, a sum of f32[4]", second), first);
  EXPECT_EQ(Collectives::shared("devices 0 and 1, a sum of f32[5]", second), second);
  EXPECT_EQ(first->next_run(0), first->next_run(1));
  EXPECT_NE(first->next_run(0), first->next_run(0));
}

// Returns a sharding of the last dimension over axis "b" of a mesh of two by two.
stablehlo::TensorSharding over_b(size_t rank) {
  stablehlo::TensorSharding over;
  over.mesh = stablehlo::Mesh{{{"a", 2}, {"b", 2}}, {}};
  over.dimensions.resize(rank);
  over.dimensions.back().axes = {{"b", std::nullopt}};
  return over;
}
stablehlo::Module identity() {
  return module_of(function("%x: tensor<2xf32>", "tensor<2xf32>", "return %x : tensor<2xf32>"));
}

TEST(Sharding, SaysWhichPartADeviceHas) {
  const stablehlo::Module module = identity();
  const Sharding sharding(module, over_b(2), 4, 2);
  EXPECT_EQ(sharding.shard_sizes({3, 8}), (Sizes{3, 4}));
  EXPECT_EQ(sharding.shard_start({3, 8}, 1), (Sizes{0, 4}));
  EXPECT_EQ(sharding.shard_start({3, 8}, 2), (Sizes{0, 0}));
  EXPECT_EQ(sharding.holders(3), (std::vector<int64_t>{0, 1}));
  expect_error(error_of([&] { sharding.shard_sizes({3, 5}); }), MYDEV_UNIMPLEMENTED,
               "dimension 1 of size 5 in 2 shards; shards of one size are supported");
}

TEST(Sharding, SaysOfWhichSummandADeviceHasAPart) {
  const stablehlo::Module module = identity();
  EXPECT_EQ(Sharding(module, over_b(2), 4, 2).summands(), (std::vector<int64_t>{}));
  stablehlo::TensorSharding over = over_b(2);
  over.unreduced_axes = {{"a", std::nullopt}};
  const Sharding sharding(module, over, 4, 2);
  EXPECT_EQ(sharding.summands(), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(sharding.summand_count(), 2);
  EXPECT_EQ(sharding.devices_by_tile(), (std::vector<int64_t>{0, 2, 1, 3}));
  over.dimensions.clear();  // a number
  over.unreduced_axes = {{"b", std::nullopt}, {"a", std::nullopt}};
  EXPECT_EQ(Sharding(module, over, 4, 0).summands(), (std::vector<int64_t>{0, 2, 1, 3}));
  const std::vector<std::string> manual = {"a"};
  EXPECT_EQ(Sharding(module, over, 4, 0, manual).summands(), (std::vector<int64_t>{0, 0, 1, 1}));
  over.unreduced_axes = {{"c", std::nullopt}};
  expect_error(error_of([&] { Sharding(module, over, 4, 0); }), MYDEV_INVALID_ARGUMENT,
               "a sharding names the axis 'c', which its mesh does not have");
}

struct TextCase {
  const char *name, *text;
  Sizes shards;
  std::vector<int64_t> devices_by_tile, holders_of_last;
};
void PrintTo(const TextCase& given, std::ostream* out) {
  *out << given.text;
}
class HloShardingText : public ::testing::TestWithParam<TextCase> {};

TEST_P(HloShardingText, IsRead) {
  const TextCase& given = GetParam();
  const Sharding sharding(parse_hlo_sharding(given.text).at(0), 4, 2);
  EXPECT_EQ(sharding.shards(), given.shards);
  EXPECT_EQ(sharding.devices_by_tile(), given.devices_by_tile);
  EXPECT_EQ(sharding.holders(3), given.holders_of_last);
}

INSTANTIATE_TEST_SUITE_P(
    Sharding, HloShardingText,
    ::testing::Values(
        TextCase{"Replicated", "{replicated}", {1, 1}, {0, 1, 2, 3}, {0}},
        TextCase{"Iota", "{devices=[2,2]<=[4]}", {2, 2}, {0, 1, 2, 3}, {0, 1, 2, 3}},
        TextCase{"Transposed", "{devices=[2,2]<=[2,2]T(1,0)}", {2, 2}, {0, 2, 1, 3}, {0, 1, 2, 3}},
        TextCase{"Listed", "{devices=[4,1]3,1,2,0}", {4, 1}, {3, 1, 2, 0}, {0, 1, 2, 3}},
        TextCase{"Copied", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", {2, 1}, {0, 1, 2, 3}, {0, 2}},
        TextCase{"Apart", "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}", {1, 2}, {0, 2, 1, 3}, {2, 3}},
        TextCase{
            "Summed", "{devices=[1,1,2,2]<=[4] last_tile_dims={replicated, unreduced}}", {1, 1}, {0, 1, 2, 3}, {0}},
        TextCase{"Both", "{devices=[2,1,2,1]<=[4] last_tile_dims={replicated, manual}}", {2, 1}, {0, 1, 2, 3}, {0, 2}},
        TextCase{
            "Hints", "{devices=[2,2]<=[4] shard_as 3 metadata={op_name=\"{x}\"}}", {2, 2}, {0, 1, 2, 3}, {0, 1, 2, 3}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(HloSharding, OfATupleIsOneOfEachElement) {
  EXPECT_EQ(parse_hlo_sharding("{}").size(), 0U);
  const std::vector<HloSharding> shardings = parse_hlo_sharding("{{manual}, {maximal device=2}, {unknown}}");
  ASSERT_EQ(shardings.size(), 3U);
  EXPECT_EQ(shardings[0].kind, HloSharding::Kind::kManual);
  EXPECT_EQ(shardings[1].devices, (std::vector<int64_t>{2}));
  EXPECT_EQ(shardings[2].kind, HloSharding::Kind::kUnknown);
}

TEST(HloSharding, RefusesWhatItDoesNotUnderstand) {
  const auto error_in = [](const char* text) { return error_of([&] { parse_hlo_sharding(text); }); };
  expect_error(error_in("{devices=[2,2]<=[3]}"), MYDEV_INVALID_ARGUMENT,
               "the sharding '{devices=[2,2]<=[3]}': expected 4 devices before this at character 20");
  expect_error(error_in("{devices=[2]1,1}"), MYDEV_INVALID_ARGUMENT,
               "the sharding '{devices=[2]1,1}': expected each of 2 devices once before this at character 16");
  expect_error(error_in("{devices=[99999999999999,99999999999999]<=[4]}"), MYDEV_INVALID_ARGUMENT,
               "the sharding '{devices=[99999999999999,99999999999999]<=[4]}': expected sizes of at least one and at "
               "most 2^20 devices before this at character 41");
  expect_error(error_in("{replicated"), MYDEV_INVALID_ARGUMENT,
               "the sharding '{replicated': expected '}' at character 12");
  expect_error(error_in("{mesh[a=2]}"), MYDEV_UNIMPLEMENTED,
               "the sharding '{mesh[a=2]}': 'mesh' is not known; replicated, manual, unknown, maximal and devices are");
  expect_error(error_in("{devices=[1,2]<=[2] last_tile_dims={unknown}}"), MYDEV_UNIMPLEMENTED,
               "the sharding '{devices=[1,2]<=[2] last_tile_dims={unknown}}': subgroups that are 'unknown' are not "
               "known; replicated, manual and unreduced ones are");
}

// --- manual computations between custom calls ------------------------------------------------------------------------

std::string manual_computation(const std::string& sharding, const std::string& part,
                               const std::string& result = "(tensor<4xf32> {jax.result_info = \"\"})") {
  return function("%x: tensor<4xf32>", result,
                  R"(
    %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = ")" +
                      sharding + R"("} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<4xf32>) -> )" +
                      part + R"(
    %2 = stablehlo.custom_call @Sharding(%1) {mhlo.sharding = "{manual}"} : ()" +
                      part + ") -> " + part + R"(
    %3 = stablehlo.custom_call @SPMDShardToFullShape(%2) {mhlo.sharding = ")" +
                      sharding + "\"} : (" + part + R"() -> tensor<4xf32>
    return %3 : tensor<4xf32>)");
}
constexpr Devices kTwo{.partitions = 2};

TEST(ManualComputation, BetweenCustomCallsTakesAndGivesParts) {
  const stablehlo::Module module = module_of(manual_computation("{devices=[2]<=[2]}", "tensor<2xf32>"));
  const LoweredProgram lowered = lower(module, kTwo);
  EXPECT_EQ(lowered.shardings.parameters.at(0).shards(), (Sizes{2}));
  EXPECT_EQ(lowered.shardings.results.at(0).shards(), (Sizes{2}));
  EXPECT_EQ(lowered.gathered, std::vector<std::string>{});
}

TEST(ManualComputation, BetweenCustomCallsGivesTheWholeToClientsThatDoNotAsk) {
  const stablehlo::Module module =
      module_of(manual_computation("{devices=[2]<=[2]}", "tensor<2xf32>", "tensor<4xf32>"));
  EXPECT_TRUE(lower(module, kTwo).shardings.results.at(0).is_whole());
}

TEST(ManualComputation, BetweenCustomCallsIsRefusedByNameAndPlace) {
  const auto error_in = [](const std::string& sharding, const std::string& part) {
    const stablehlo::Module module = module_of(manual_computation(sharding, part));
    return error_of([&] { lower(module, kTwo); });
  };
  const std::string call = "stablehlo.custom_call (operation 1 of function 'main'): ";
  expect_error(error_in("{devices=[2]<=[2]}", "tensor<1xf32>"), MYDEV_INVALID_ARGUMENT,
               call + "a tensor<1xf32> is no shard of a tensor<4xf32> by its sharding");
  expect_error(error_in("{devices=[4]<=[4]}", "tensor<1xf32>"), MYDEV_UNIMPLEMENTED,
               call + "a sharding over 4 devices in a program for 2; those over all of them are supported");
  expect_error(error_in("{maximal device=1}", "tensor<4xf32>"), MYDEV_UNIMPLEMENTED,
               call +
                   "the sharding '{maximal device=1}' does not say which shard of the tensor each device has; tiled "
                   "and replicated ones are supported");
  expect_error(error_in("{unknown}", "tensor<4xf32>"), MYDEV_UNIMPLEMENTED,
               call +
                   "what gives its operand has no sharding that says how it is split; 'mhlo.sharding' there is "
                   "what is read");
}

TEST(Lowering, MakesOneProgramForAllDevices) {
  const stablehlo::Module module = module_of(function("", "(tensor<ui32>, tensor<ui32>)", R"(
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.replica_id : tensor<ui32>
    return %0, %1 : tensor<ui32>, tensor<ui32>)"));
  const LoweredProgram lowered = lower(module, Devices{.replicas = 2, .partitions = 3});
  for (uint32_t device = 0; device < 6; ++device) {
    const DeviceArray<uint32_t> partition({99}), replica({99});
    program::Executor executor(lowered.program, default_stream(0), program::caching_allocator_for(default_stream(0)),
                               program::Arena::kKept, device);
    executor.run(default_stream(0), {}, std::vector<program::Binding>{partition.binding(), replica.binding()});
    EXPECT_EQ(partition.read(), std::vector<uint32_t>{device % 3});
    EXPECT_EQ(replica.read(), std::vector<uint32_t>{device / 3});
  }
}

TEST(Lowering, RefusesGroupsThatLeaveADeviceOut) {
  const stablehlo::Module module = module_of(function("%x: tensor<4xf32>", "tensor<4xf32>", R"(
    %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}> :
        (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>)"));
  expect_error(error_of([&] { lower(module, Devices{.partitions = 3}); }), MYDEV_INVALID_ARGUMENT,
               "device 2 is in none of the groups");
}

TEST(Lowering, SaysWhatIsGathered) {
  const stablehlo::Module module =
      module_of(function("%x: tensor<4xf32> {mhlo.sharding = \"{devices=[2]<=[2]}\"}", "tensor<4xf32>", R"(
    %0 = stablehlo.reverse %x, dims = [0] : tensor<4xf32>
    return %0 : tensor<4xf32>)"));
  EXPECT_EQ(lower(module, kTwo).gathered, (std::vector<std::string>{"argument 0, tensor<4xf32>"}));
}

TEST(Sharding, TellsApartWhatIsOfAnotherTensor) {
  const stablehlo::Module module = identity();
  const std::vector<std::string> axes = {"b"}, apart = {"a"};
  const Sharding sharding(module, over_b(1), 4, 1, axes, apart);
  EXPECT_EQ(sharding.holders(1), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(sharding.holders(2), (std::vector<int64_t>{2, 3}));
}

}  // namespace
}  // namespace mydev::lowering
