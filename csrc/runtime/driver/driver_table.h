// Checks that a driver's tables of functions have the entries that they must have. Each entry is a pointer at an
// offset.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>

namespace mydev {

struct TableEntry {
  const char* name;
  size_t offset;
};

#define MYDEV_TABLE_ENTRY(table, name) \
  ::mydev::TableEntry {                \
    #name, offsetof(table, name)       \
  }

// A table has all entries of a group, or none.
using EntryGroup = std::span<const TableEntry>;

inline bool has_entry(const void* table, const TableEntry& entry) {
  void* pointer = nullptr;
  std::memcpy(static_cast<void*>(&pointer), static_cast<const char*>(table) + entry.offset, sizeof(pointer));
  return pointer != nullptr;
}

inline size_t entries_given(const void* table, EntryGroup group) {
  size_t given = 0;
  for (const TableEntry& entry : group) given += has_entry(table, entry) ? 1 : 0;
  return given;
}

// "host_alloc and host_free".
inline std::string names_of(EntryGroup group) {
  std::string names;
  for (size_t i = 0; i < group.size(); ++i) {
    if (i > 0) names += i + 1 == group.size() ? " and " : ", ";
    names += group[i].name;
  }
  return names;
}

}  // namespace mydev
