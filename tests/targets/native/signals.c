/* Counts queued real-time signals while it computes. Says "ready"; ends by SIGTERM and prints how many it got. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t received, ended;
static volatile double sum;

static void on_queued(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    received += info->si_code == SI_QUEUE && info->si_value.sival_int == 42;
}

static void on_end(int number)
{
    ended = number;
}

int main(void)
{
    struct sigaction queued = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN, &queued, NULL);
    signal(SIGTERM, on_end);
    puts("ready");
    fflush(stdout);
    for (long i = 1; !ended; i++)
        sum += 1.0 / i;
    printf("%d\n", (int)received);
    return 0;
}
