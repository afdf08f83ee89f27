// SPDX-License-Identifier: Apache-2.0
// Threads of a cluster as coroutines over stacks of their own. Shared memory is filled with NaN
// before a block begins; copies in the background are made as late as the kernel allows.
#include "software_device/scheduler.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace flashinfer::software_device {
namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr uint32_t kWarpSize = 32;
constexpr uint32_t kNumBarriers = 16;

struct Thread;

/// Lanes of a warp on their way into an operation, and then reading each other's slots.
struct Meeting {
  Slot slots[kWarpSize];  // first: Leave() is given its address
  uint32_t mask = 0;
  uint32_t arrived = 0;
  Operation operation = Operation::kSyncWarp;
  int num_readers = 0;
  std::vector<Thread*> waiters;
};

struct Warp {
  uint32_t exited = 0;
  std::vector<Meeting*> open;
};

/// Where all of a number of threads must come before any goes on.
struct Barrier {
  uint32_t num_threads = 0;
  uint32_t num_arrived = 0;
  uint64_t num_phases = 0;  ///< that have ended
  std::vector<Thread*> waiters;
};

struct Block {
  Barrier barrier;
  std::array<Barrier, kNumBarriers> barriers;  ///< of some threads, by index
  std::vector<Warp> warps;
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

struct Thread {
  ThreadState state;
  Block* block = nullptr;
  Warp* warp = nullptr;
  uint32_t lane = 0;
  bool has_begun = false;
  uint64_t cluster_phase = 0;             ///< of its last arrival
  std::vector<std::vector<Copy>> groups;  ///< committed copies, oldest first
  std::vector<Copy> copies;               ///< of the group that is still open
  char* stack = nullptr;
  ucontext_t start;
  jmp_buf at;
};

/// The launch that runs; one at a time.
struct Machine {
  std::vector<std::unique_ptr<Thread>> threads;  ///< kept, with their stacks
  std::vector<Block> blocks;
  Barrier cluster;
  std::vector<Thread*> runnable;
  std::minstd_rand random;
  std::vector<std::unique_ptr<Meeting>> meetings;
  std::vector<Meeting*> free_meetings;
  std::vector<char> shared;
  Thread* running = nullptr;
  ThreadState* current = nullptr;
  size_t num_alive = 0;
  void (*run_thread)(void**) = nullptr;
  void** params = nullptr;
  std::string why;
  jmp_buf done;
};

Machine& TheMachine() {
  static Machine& machine = *new Machine;
  return machine;
}

void Wake(Machine& m, std::vector<Thread*>& waiters) {
  m.runnable.insert(m.runnable.end(), waiters.begin(), waiters.end());
  waiters.clear();
}

/// Goes on with the next thread that can; back to Run() when there is none.
[[noreturn]] void RunNext(Machine& m) {
  if (m.runnable.empty()) {
    if (m.num_alive > 0 && m.why.empty()) {
      m.why = std::to_string(m.num_alive) + " threads wait for others that never come";
    }
    _longjmp(m.done, 1);
  }
  // In no order that a kernel could count on where it lacks a barrier.
  std::swap(m.runnable[m.random() % m.runnable.size()], m.runnable.back());
  Thread& next = *m.runnable.back();
  m.runnable.pop_back();
  m.running = &next;
  m.current = &next.state;
  if (next.has_begun) _longjmp(next.at, 1);
  next.has_begun = true;
  setcontext(&next.start);
  __builtin_unreachable();
}

/// Returns when another thread woke this one.
void Pause(Machine& m) {
  if (_setjmp(m.running->at) == 0) RunNext(m);
}

[[noreturn]] void Fail(Machine& m, const std::string& why) {
  m.why = why;
  _longjmp(m.done, 1);
}

/// Whether all have come; wakes those that wait then.
bool CompleteIfAllCame(Machine& m, Barrier& barrier) {
  if (barrier.num_arrived < barrier.num_threads) return false;
  barrier.num_arrived = 0;
  ++barrier.num_phases;
  Wake(m, barrier.waiters);
  return true;
}

void CompleteIfAllCame(Machine& m, Warp& warp, Meeting& meeting) {
  if (((meeting.arrived | warp.exited) & meeting.mask) != meeting.mask) return;
  meeting.num_readers = std::popcount(meeting.arrived);
  warp.open.erase(std::find(warp.open.begin(), warp.open.end(), &meeting));
  Wake(m, meeting.waiters);
}

void Perform(std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    if (copy.from == nullptr) {
      std::memset(copy.to, 0, copy.bytes);
    } else {
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
  }
  copies.clear();
}

/// The body of each thread.
void Begin() {
  Machine& m = TheMachine();
  m.run_thread(m.params);
  Thread& self = *m.running;
  self.warp->exited |= 1u << self.lane;
  for (Meeting* meeting : std::vector<Meeting*>(self.warp->open)) {
    CompleteIfAllCame(m, *self.warp, *meeting);
  }
  for (Barrier* barrier : {&self.block->barrier, &m.cluster}) {
    --barrier->num_threads;  // waits for this thread no longer
    if (barrier->num_arrived > 0) CompleteIfAllCame(m, *barrier);
  }
  --m.num_alive;
  RunNext(m);
}

// --- Services ---

Meeting& NewMeeting(Machine& m) {
  if (m.free_meetings.empty()) {
    m.meetings.push_back(std::make_unique<Meeting>());
    m.free_meetings.push_back(m.meetings.back().get());
  }
  Meeting& meeting = *m.free_meetings.back();
  m.free_meetings.pop_back();
  return meeting;
}

const Slot* Meet(uint32_t mask, Operation operation, const Slot& mine) {
  Machine& m = TheMachine();
  Thread& self = *m.running;
  Warp& warp = *self.warp;
  const uint32_t bit = 1u << self.lane;
  if ((mask & bit) == 0) Fail(m, "a lane calls a warp's operation whose mask leaves it out");
  Meeting* meeting = nullptr;
  for (Meeting* open : warp.open) {
    if (open->mask == mask) meeting = open;
  }
  if (meeting == nullptr) {
    meeting = &NewMeeting(m);
    meeting->mask = mask;
    meeting->arrived = 0;
    meeting->operation = operation;
    warp.open.push_back(meeting);
  }
  if (meeting->operation != operation) Fail(m, "lanes of a warp meet at different operations");
  meeting->arrived |= bit;
  meeting->slots[self.lane] = mine;
  CompleteIfAllCame(m, warp, *meeting);
  if (meeting->num_readers == 0) {
    meeting->waiters.push_back(&self);
    Pause(m);
  }
  return meeting->slots;
}

void Leave(const Slot* slots) {
  auto* meeting = reinterpret_cast<Meeting*>(const_cast<Slot*>(slots));
  if (--meeting->num_readers == 0) TheMachine().free_meetings.push_back(meeting);
}

void Sync(Machine& m, Barrier& barrier) {
  ++barrier.num_arrived;
  if (CompleteIfAllCame(m, barrier)) return;
  barrier.waiters.push_back(m.running);
  Pause(m);
}

void SyncBlock() {
  Machine& m = TheMachine();
  Sync(m, m.running->block->barrier);
}

void SyncThreads(uint32_t index, uint32_t num_threads) {
  Machine& m = TheMachine();
  Barrier& barrier = m.running->block->barriers.at(index);
  if (barrier.num_arrived > 0 && barrier.num_threads != num_threads) {
    Fail(m, "threads come to a barrier with different numbers of them");
  }
  barrier.num_threads = num_threads;
  Sync(m, barrier);
}

void ClusterArrive() {
  Machine& m = TheMachine();
  m.running->cluster_phase = m.cluster.num_phases;
  ++m.cluster.num_arrived;
  CompleteIfAllCame(m, m.cluster);
}

void ClusterWait() {
  Machine& m = TheMachine();
  if (m.cluster.num_phases > m.running->cluster_phase) return;
  m.cluster.waiters.push_back(m.running);
  Pause(m);
}

void Yield() {
  Machine& m = TheMachine();
  m.runnable.push_back(m.running);
  Pause(m);
}

void CopyAsync(void* to, const void* from, size_t bytes) {
  TheMachine().running->copies.push_back({to, from, bytes});
}

void CommitGroup() {
  Thread& self = *TheMachine().running;
  self.groups.push_back(std::move(self.copies));
  self.copies.clear();
}

void WaitGroup(int num_pending) {
  Thread& self = *TheMachine().running;
  while (self.groups.size() > static_cast<size_t>(num_pending)) {
    Perform(self.groups.front());
    self.groups.erase(self.groups.begin());
  }
}

void Trap(const char* why) { Fail(TheMachine(), why); }

// --- Launches ---

/// Threads [0, num_threads) with stacks, as they are before they begin.
void PrepareThreads(Machine& m, size_t num_threads) {
  while (m.threads.size() < num_threads) {
    auto thread = std::make_unique<Thread>();
    void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) std::abort();
    thread->stack = static_cast<char*>(stack);
    m.threads.push_back(std::move(thread));
  }
  for (size_t i = 0; i < num_threads; ++i) {
    Thread& thread = *m.threads[i];
    thread.has_begun = false;
    thread.groups.clear();
    thread.copies.clear();
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = thread.stack;
    thread.start.uc_stack.ss_size = kStackBytes;
    thread.start.uc_link = nullptr;
    makecontext(&thread.start, Begin, 0);
  }
}

/// The blocks from `first` on that are a cluster.
void PrepareCluster(Machine& m, const Launch& launch, uint64_t first) {
  const uint32_t num_threads = launch.block_dim.x * launch.block_dim.y * launch.block_dim.z;
  const size_t num_all = size_t{num_threads} * launch.cluster_size;
  PrepareThreads(m, num_all);
  m.shared.resize(kSharedStride * (launch.cluster_size + 1));
  size_t room = m.shared.size();
  void* aligned = m.shared.data();
  char* shared = static_cast<char*>(std::align(1024, kSharedStride, aligned, room));
  m.blocks.assign(launch.cluster_size, Block());
  m.cluster = Barrier();
  m.cluster.num_threads = static_cast<uint32_t>(num_all);
  m.runnable.clear();
  m.num_alive = num_all;
  for (uint32_t rank = 0; rank < launch.cluster_size; ++rank) {
    const uint64_t index = first + rank;
    Block& block = m.blocks[rank];
    block.barrier.num_threads = num_threads;
    block.warps.resize((num_threads + kWarpSize - 1) / kWarpSize);
    char* own = shared + rank * kSharedStride;
    std::memset(own, 0xff, launch.smem_bytes);
    std::memset(own + kFixedSharedOffset, 0xff, kSharedStride - kFixedSharedOffset);
    for (uint32_t t = 0; t < num_threads; ++t) {
      Thread& thread = *m.threads[size_t{rank} * num_threads + t];
      thread.block = &block;
      thread.warp = &block.warps[t / kWarpSize];
      thread.lane = t % kWarpSize;
      const Index3 grid = launch.grid_dim;
      thread.state = {.thread = {t, 0, 0},
                      .block = {static_cast<unsigned>(index % grid.x),
                                static_cast<unsigned>(index / grid.x % grid.y),
                                static_cast<unsigned>(index / grid.x / grid.y)},
                      .block_dim = launch.block_dim,
                      .grid_dim = grid,
                      .shared = own,
                      .cluster_shared = shared,
                      .cluster_rank = rank,
                      .cluster_size = launch.cluster_size};
      m.runnable.push_back(&thread);
    }
  }
  // Warps whose last lanes are not there.
  for (Block& block : m.blocks) {
    if (num_threads % kWarpSize != 0) {
      block.warps.back().exited = ~0u << (num_threads % kWarpSize);
    }
  }
}

/// Runs the prepared threads until none can go on.
void RunThreads(Machine& m) {
  if (_setjmp(m.done) == 0) RunNext(m);
}

}  // namespace

const Services& DeviceServices() {
  static const Services services{.current = &TheMachine().current,
                                 .Meet = Meet,
                                 .Leave = Leave,
                                 .SyncBlock = SyncBlock,
                                 .SyncThreads = SyncThreads,
                                 .ClusterArrive = ClusterArrive,
                                 .ClusterWait = ClusterWait,
                                 .Yield = Yield,
                                 .CopyAsync = CopyAsync,
                                 .CommitGroup = CommitGroup,
                                 .WaitGroup = WaitGroup,
                                 .Trap = Trap};
  return services;
}

bool Run(const Launch& launch, void (*run_thread)(void**), void** params, std::string& why) {
  static std::mutex& one_at_a_time = *new std::mutex;
  const std::lock_guard lock(one_at_a_time);
  Machine& m = TheMachine();
  m.run_thread = run_thread;
  m.params = params;
  m.why.clear();
  const uint64_t num_blocks = uint64_t{launch.grid_dim.x} * launch.grid_dim.y * launch.grid_dim.z;
  for (uint64_t first = 0; first < num_blocks && m.why.empty(); first += launch.cluster_size) {
    PrepareCluster(m, launch, first);
    RunThreads(m);
  }
  why = m.why;
  if (!why.empty()) {  // meetings that were left open
    m.free_meetings.clear();
    m.meetings.clear();
  }
  return why.empty();
}

}  // namespace flashinfer::software_device
