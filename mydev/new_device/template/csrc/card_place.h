/* The groups that a call of compiled code runs: for the card's compiler, and as text for the code itself. */
#pragma once

#include <cstdint>

#include "mydev/driver_extensions.h"

#define CARD_PLACE                                                                  \
  struct CardPlace {                                                                \
    uint32_t at[3];     /* the group, of a language whose calls run one */          \
    uint32_t grid[3];   /* groups of the launch */                                  \
    uint32_t group[3];  /* threads of a group */                                    \
    int64_t begin, end; /* the groups of this call; dimension 0 varies fastest */   \
    char* local_memory; /* for one group at a time */                               \
    int32_t failed;                                                                 \
    void fail(const char* text) const { const_cast<CardPlace*>(this)->failed = 1; } \
  };
#define CARD_TEXT_OF(...) #__VA_ARGS__
#define CARD_TEXT(...) CARD_TEXT_OF(__VA_ARGS__)

CARD_PLACE

constexpr const char* kPlaceText = "#include <stdint.h>\n" CARD_TEXT(CARD_PLACE) R"text(
static thread_local CardPlace card_here;
extern "C" __attribute__((visibility("default"))) CardPlace* card_place() { return &card_here; }
)text";
