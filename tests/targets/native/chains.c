/* Known call chains: chains MODE. Says "ready" when it is there. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noipa))

static volatile double sum;
static volatile int spinning = 1;

static void say_ready(void)
{
    puts("ready");
    fflush(stdout);
}

KEPT void spin(int unused)
{
    while (spinning)
        ;
    sum += unused;
}

KEPT void park(int unused)
{
    struct timespec long_time = {1000, 0};
    nanosleep(&long_time, NULL);
    sum += unused;
}

static void (*leaf)(int) = park;

KEPT void inner(int depth)
{
    if (leaf == park)
        park(depth);
    else
        spin(depth);
    sum += depth;
}

KEPT void middle(int depth)
{
    char room[300];
    memset(room, depth, sizeof room);
    inner(room[depth]);
    sum += room[7];
}

KEPT void outer(int depth)
{
    if (depth)
        outer(depth - 1);
    else
        middle(depth);
    sum += depth;
}

KEPT int compare(const void *left, const void *right)
{
    outer(1);
    return left < right;
}

KEPT void on_signal(int number)
{
    outer(0);
    sum += number;
}

KEPT void interrupted(void)
{
    raise(SIGUSR1);
    sum += 1;
}

KEPT double small(double x)
{
    return x + 1;
}

KEPT double medium(double x)
{
    char room[4096];
    memset(room, (int)x, 4);
    return small(x) + small(room[1]);
}

KEPT void call_often(void)
{
    for (;;)
        sum += medium(sum);
}

KEPT void compute(void)
{
    for (;;)
        sum += pow(fabs(sin(sum)) + 1.5, 1.7);
}

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret — code without a file, a table or a name */
static const unsigned char generated[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};

KEPT void in_generated_code(void (*callee)(void))
{
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, generated, sizeof generated);
    ((void (*)(void (*)(void)))code)(callee);
    sum += 1;
}

KEPT void below_generated_code(void)
{
    leaf(0);
    sum += 1;
}

static void *in_thread(void *unused)
{
    outer(2);
    return unused;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    pthread_t thread;
    int pair[2] = {1, 2};
    if (strstr(mode, "spin"))
        leaf = spin;
    say_ready();
    if (strstr(mode, "handler")) {
        stack_t other = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
        struct sigaction action = {.sa_handler = on_signal};
        if (strstr(mode, "other") && !sigaltstack(&other, NULL))
            action.sa_flags = SA_ONSTACK;
        sigaction(SIGUSR1, &action, NULL);
        interrupted();
    } else if (strstr(mode, "generated")) {
        in_generated_code(below_generated_code);
    } else if (strstr(mode, "callback")) {
        qsort(pair, 2, sizeof *pair, compare);
    } else if (strstr(mode, "deep")) {
        outer(argc > 2 ? atoi(argv[2]) : 100);
    } else if (strstr(mode, "thread")) {
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    } else if (strstr(mode, "often")) {
        call_often();
    } else if (strstr(mode, "compute")) {
        compute();
    } else {
        outer(3);
    }
    return 0;
}
