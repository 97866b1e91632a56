/* Scalar SLUB in C, object by object: what bench_pingpong.py is measured against.
 *
 * One cache of 16-object slabs as 6.1 would keep it: 128 CPUs on two nodes, a per-CPU partial list
 * of up to 6 slabs, min_partial 5. Every round each CPU sends a burst of 1..32 objects to a CPU
 * drawn at random, which frees them 8 rounds later. Prints object operations per CPU second.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CPUS = 128, NODES = 2, OBJECTS = 16, LIMIT = 6, KEEP = 5, DELAY = 8, BURST = 32 };
enum { POOL = 1 << 16, NONE = -1 };

struct slab { int free, held, node, listed, prev, next; };
struct cpu { int slab, free, height, stack[LIMIT + 8]; };
struct list { int head, tail, length; };

static struct slab slabs[POOL];
static int unused[POOL], nr_unused = POOL;
static struct cpu cpus[CPUS];
static struct list lists[NODES];
static uint64_t state = 0x2545F4914F6CDD1DULL;

static unsigned draw(unsigned bound)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (unsigned)((state * 0x2545F4914F6CDD1DULL) >> 33) % bound;
}

static void append(int number)
{
	struct slab *slab = &slabs[number];
	struct list *list = &lists[slab->node];

	slab->prev = list->tail;
	slab->next = NONE;
	if (list->tail == NONE)
		list->head = number;
	else
		slabs[list->tail].next = number;
	list->tail = number;
	list->length++;
	slab->listed = 1;
}

static void unlink_slab(int number)
{
	struct slab *slab = &slabs[number];
	struct list *list = &lists[slab->node];

	if (slab->prev == NONE)
		list->head = slab->next;
	else
		slabs[slab->prev].next = slab->next;
	if (slab->next == NONE)
		list->tail = slab->prev;
	else
		slabs[slab->next].prev = slab->prev;
	list->length--;
	slab->listed = 0;
}

static void load(struct cpu *cpu, int number)
{
	cpu->slab = number;
	cpu->free = slabs[number].free;
	slabs[number].free = 0;
	slabs[number].held = 1;
}

static void find_slab(struct cpu *cpu, int node)
{
	struct list *list = &lists[node];
	int number, first;

	if (cpu->slab != NONE) {
		if (slabs[cpu->slab].free) {
			load(cpu, cpu->slab);
			return;
		}
		slabs[cpu->slab].held = 0;
		cpu->slab = NONE;
	}
	if (cpu->height) {
		load(cpu, cpu->stack[--cpu->height]);
		return;
	}
	first = list->head;
	if (first != NONE) {
		unlink_slab(first);
		for (int extra = 0; extra <= LIMIT / 2 && list->head != NONE; extra++) {
			number = list->head;
			unlink_slab(number);
			slabs[number].held = 1;
			cpu->stack[cpu->height++] = number;
		}
		load(cpu, first);
		return;
	}
	number = unused[--nr_unused];
	slabs[number] = (struct slab){ .free = OBJECTS, .node = node };
	load(cpu, number);
}

static int allocate(int number)
{
	struct cpu *cpu = &cpus[number];

	while (!cpu->free)
		find_slab(cpu, number / (CPUS / NODES));
	cpu->free--;
	return cpu->slab;
}

static void drain(struct cpu *cpu)
{
	while (cpu->height) {
		int number = cpu->stack[--cpu->height];
		struct slab *slab = &slabs[number];

		slab->held = 0;
		if (slab->free == OBJECTS && lists[slab->node].length >= KEEP)
			unused[nr_unused++] = number;
		else
			append(number);
	}
}

static void release(int who, int number)
{
	struct cpu *cpu = &cpus[who];
	struct slab *slab = &slabs[number];

	if (cpu->slab == number) {
		cpu->free++;
		return;
	}
	slab->free++;
	if (slab->held)
		return;
	if (slab->free == 1) {
		slab->held = 1;
		if (cpu->height >= LIMIT)
			drain(cpu);
		cpu->stack[cpu->height++] = number;
	} else if (slab->free == OBJECTS && lists[slab->node].length >= KEEP) {
		unlink_slab(number);
		unused[nr_unused++] = number;
	}
}

int main(int argc, char **argv)
{
	static int held[CPUS][DELAY][BURST], length[CPUS][DELAY], to[CPUS][DELAY];
	int rounds = argc > 1 ? atoi(argv[1]) : 4000;
	struct timespec begin, end;
	long operations = 0;

	for (int i = 0; i < POOL; i++)
		unused[i] = POOL - 1 - i;
	for (int i = 0; i < CPUS; i++)
		cpus[i].slab = NONE;
	for (int i = 0; i < NODES; i++)
		lists[i].head = lists[i].tail = NONE;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	for (int round = 0; round < rounds; round++) {
		int slot = round % DELAY;

		for (int from = 0; from < CPUS; from++) {
			for (int i = 0; i < length[from][slot]; i++)
				release(to[from][slot], held[from][slot][i]);
			operations += length[from][slot];
		}
		for (int from = 0; from < CPUS; from++) {
			length[from][slot] = 1 + draw(BURST);
			to[from][slot] = draw(CPUS);
			for (int i = 0; i < length[from][slot]; i++)
				held[from][slot][i] = allocate(from);
			operations += length[from][slot];
		}
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	printf("%.0f\n", operations / ((end.tv_sec - begin.tv_sec) + (end.tv_nsec - begin.tv_nsec) * 1e-9));
	return 0;
}
