#include "runtime/driver/driver_extensions.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/driver/driver_table.h"

namespace mydev {

namespace {

constexpr uint64_t kMostExtensions = 256;

#define PROFILER(name) MYDEV_TABLE_ENTRY(mydev_profiler_extension, name)
#define COMPILER(name) MYDEV_TABLE_ENTRY(mydev_compiler_extension, name)
#define PROGRAMS(name) MYDEV_TABLE_ENTRY(mydev_programs_extension, name)
#define GRAPH(name) MYDEV_TABLE_ENTRY(mydev_graph_extension, name)
#define TELEMETRY(name) MYDEV_TABLE_ENTRY(mydev_telemetry_extension, name)
#define COLLECTIVES(name) MYDEV_TABLE_ENTRY(mydev_collectives_extension, name)

constexpr std::array kProfilerEntries = {PROFILER(start), PROFILER(stop), PROFILER(set_launch_id), PROFILER(flush),
                                         PROFILER(clock_pair)};
constexpr std::array kCompilerEntries = {COMPILER(languages), COMPILER(module_create), COMPILER(module_destroy),
                                         COMPILER(module_kernel), COMPILER(launch)};
constexpr std::array kProgramsEntries = {PROGRAMS(takes), PROGRAMS(compile), PROGRAMS(run), PROGRAMS(destroy)};
constexpr std::array kProgramsBinaries = {PROGRAMS(binary), PROGRAMS(load)};
constexpr std::array<EntryGroup, 1> kProgramsGroups = {kProgramsBinaries};
constexpr std::array kGraphEntries = {GRAPH(instantiate), GRAPH(launch), GRAPH(destroy), GRAPH(exec_destroy)};
constexpr std::array kGraphCapture = {GRAPH(capture_begin), GRAPH(capture_end)};
constexpr std::array kGraphNodes = {GRAPH(create), GRAPH(add_launch), GRAPH(add_copy), GRAPH(add_fill)};
constexpr std::array<EntryGroup, 2> kGraphGroups = {kGraphCapture, kGraphNodes};
constexpr std::array kTelemetryEntries = {TELEMETRY(measure)};
constexpr std::array kCollectivesEntries = {
    COLLECTIVES(unique_id),   COLLECTIVES(create),         COLLECTIVES(destroy),    COLLECTIVES(abort),
    COLLECTIVES(group_start), COLLECTIVES(group_end),      COLLECTIVES(send),       COLLECTIVES(receive),
    COLLECTIVES(all_reduce),  COLLECTIVES(reduce_scatter), COLLECTIVES(all_gather), COLLECTIVES(broadcast)};

// An extension that the runtime knows.
struct KnownExtension {
  const char* name;
  uint32_t version;                    // the highest
  size_t size;                         // of its table
  size_t least;                        // of version 1
  std::span<const TableEntry> needed;  // entries that must be given
  std::span<const EntryGroup> groups;  // entries of which all or none are given
  bool needs_a_group;
};
constexpr std::array kKnownExtensions = {
    KnownExtension{MYDEV_PROFILER_EXTENSION,
                   MYDEV_PROFILER_VERSION,
                   sizeof(mydev_profiler_extension),
                   sizeof(mydev_profiler_extension),
                   kProfilerEntries,
                   {},
                   false},
    KnownExtension{MYDEV_COMPILER_EXTENSION,
                   MYDEV_COMPILER_VERSION,
                   sizeof(mydev_compiler_extension),
                   offsetof(mydev_compiler_extension, properties),
                   kCompilerEntries,
                   {},
                   false},
    KnownExtension{MYDEV_PROGRAMS_EXTENSION, MYDEV_PROGRAMS_VERSION, sizeof(mydev_programs_extension),
                   sizeof(mydev_programs_extension), kProgramsEntries, kProgramsGroups, false},
    KnownExtension{MYDEV_GRAPH_EXTENSION, MYDEV_GRAPH_VERSION, sizeof(mydev_graph_extension),
                   sizeof(mydev_graph_extension), kGraphEntries, kGraphGroups, true},
    KnownExtension{MYDEV_TELEMETRY_EXTENSION,
                   MYDEV_TELEMETRY_VERSION,
                   sizeof(mydev_telemetry_extension),
                   sizeof(mydev_telemetry_extension),
                   kTelemetryEntries,
                   {},
                   false},
    KnownExtension{MYDEV_COLLECTIVES_EXTENSION,
                   MYDEV_COLLECTIVES_VERSION,
                   sizeof(mydev_collectives_extension),
                   sizeof(mydev_collectives_extension),
                   kCollectivesEntries,
                   {},
                   false},
};

const KnownExtension* known_extension(std::string_view name) {
  const auto* const found = std::find_if(kKnownExtensions.begin(), kKnownExtensions.end(),
                                         [&](const KnownExtension& known) { return name == known.name; });
  return found != kKnownExtensions.end() ? found : nullptr;
}

template <typename... Args>
void require(bool condition, const std::string& driver, const Args&... what) {
  MYDEV_CHECK(condition, MYDEV_FAILED_PRECONDITION, "driver '", driver, "': ", what...);
}

void check_entries(const std::string& driver, const KnownExtension& known, const std::vector<std::byte>& table) {
  for (const TableEntry& entry : known.needed) {
    require(has_entry(table.data(), entry), driver, "its extension '", known.name, "' lacks the entry '", entry.name,
            "', which mydev/driver_extensions.h requires");
  }
  size_t groups_given = 0;
  for (const EntryGroup group : known.groups) {
    const size_t given = entries_given(table.data(), group);
    require(given == 0 || given == group.size(), driver, "its extension '", known.name, "' gives only some of ",
            names_of(group), "; mydev/driver_extensions.h wants all or none");
    groups_given += given != 0 ? 1 : 0;
  }
  require(!known.needs_a_group || groups_given != 0, driver, "its extension '", known.name, "' gives neither ",
          known.groups.empty() ? "" : names_of(known.groups.front()), " nor ",
          known.groups.empty() ? "" : names_of(known.groups.back()));
}

// Asks for the table, and returns a copy in the runtime's own size.
std::vector<std::byte> load_table(const std::string& driver, const mydev_driver_api& api, const KnownExtension& known,
                                  uint32_t version, uint32_t& out_version) {
  const auto* head = static_cast<const mydev_extension_head*>(api.extension(known.name, version));
  require(head != nullptr, driver, "it lists the extension '", known.name, "' and gives no table for version ", version,
          ": its entry `extension` returned NULL; give the table, or do not list the extension");
  require(head->struct_size >= known.least, driver, "the table of its extension '", known.name, "' has struct_size ",
          head->struct_size, ", version 1 has ", known.least, "; set it to sizeof");
  require(head->version >= 1 && head->version <= version, driver, "the table of its extension '", known.name,
          "' says version ", head->version, ", asked was for at most ", version);
  out_version = head->version;
  std::vector<std::byte> table(known.size);
  std::memcpy(table.data(), head, std::min(head->struct_size, known.size));
  check_entries(driver, known, table);
  return table;
}

}  // namespace

std::vector<DriverExtension> load_extensions(const std::string& driver, const mydev_driver_api& api) {
  if (api.num_extensions == 0) return {};
  require(api.num_extensions <= kMostExtensions, driver, "it lists ", api.num_extensions, " extensions; at most ",
          kMostExtensions, " are supported");
  require(api.extensions != nullptr, driver, "it has ", api.num_extensions, " extensions and the list of them is NULL");
  require(api.extension != nullptr, driver, "it lists extensions and its entry `extension` is NULL");
  std::vector<DriverExtension> loaded;
  for (const mydev_extension& listed : std::span(api.extensions, api.num_extensions)) {
    require(listed.name != nullptr, driver, "it lists an extension without a name, number ", loaded.size());
    require(listed.version >= 1, driver, "it lists the extension '", listed.name, "' with version ", listed.version,
            "; versions begin with 1");
    require(std::none_of(loaded.begin(), loaded.end(), [&](const auto& other) { return other.name == listed.name; }),
            driver, "it lists the extension '", listed.name, "' twice");
    DriverExtension extension{listed.name, listed.version, {}};
    if (const KnownExtension* known = known_extension(listed.name)) {
      extension.table = load_table(driver, api, *known, std::min(listed.version, known->version), extension.version);
    }
    loaded.push_back(std::move(extension));
  }
  return loaded;
}

}  // namespace mydev
