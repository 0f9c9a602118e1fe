// MYDEV_API marks what a library offers to the others: functions, variables and classes. All else is hidden
// (-fvisibility=hidden), so it can change without them, and calls of it need no table.
//
// A class that is thrown or asked for by dynamic_cast in another library is marked, for its typeinfo. So is a variable
// that a process has once.
#pragma once

#define MYDEV_API [[gnu::visibility("default")]]
