/* Drives the units of FMI 2.0 of a controller with an estimator and of its plant from where gpc has driven its own: prints how many
 * episodes are unsafe, how many of them otherwise than by gpc, and the largest distance of an end. The test says names and sizes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_episodes.h"

#define PASTE(a, b) a##b
#define JOIN(a, b) PASTE(a, b)

typedef struct {
    void (*logger)(void *, const char *, int, const char *, const char *, ...);
    void *(*allocate)(size_t, size_t);
    void (*release)(void *);
    void (*finished)(void *, int);
    void *environment;
} callbacks;

#define UNIT(name)                                                                                                           \
    void *JOIN(name, fmi2Instantiate)(const char *, int, const char *, const char *, const callbacks *, int, int);           \
    void JOIN(name, fmi2FreeInstance)(void *);                                                                               \
    int JOIN(name, fmi2Reset)(void *);                                                                                       \
    int JOIN(name, fmi2EnterInitializationMode)(void *);                                                                     \
    int JOIN(name, fmi2ExitInitializationMode)(void *);                                                                      \
    int JOIN(name, fmi2GetReal)(void *, const unsigned *, size_t, double *);                                                 \
    int JOIN(name, fmi2SetReal)(void *, const unsigned *, size_t, const double *);                                           \
    int JOIN(name, fmi2GetBoolean)(void *, const unsigned *, size_t, int *);                                                 \
    int JOIN(name, fmi2DoStep)(void *, double, double, int);                                                                 \
    static void JOIN(name, get)(void *unit, unsigned from, size_t n, double *to)                                             \
    {                                                                                                                        \
        for (unsigned i = 0; i < n; i++) {                                                                                   \
            const unsigned at = from + i;                                                                                    \
            JOIN(name, fmi2GetReal)(unit, &at, 1, to + i);                                                                   \
        }                                                                                                                    \
    }                                                                                                                        \
    static void JOIN(name, set)(void *unit, unsigned to, size_t n, const double *from)                                       \
    {                                                                                                                        \
        for (unsigned i = 0; i < n; i++) {                                                                                   \
            const unsigned at = to + i;                                                                                      \
            JOIN(name, fmi2SetReal)(unit, &at, 1, from + i);                                                                 \
        }                                                                                                                    \
    }

UNIT(controller_)
UNIT(plant_)

void OUTPUTS_OF(const double *s, const double *c, const double *u, double *y);
void STATE_MARGINS(const double *s, const double *c, double *m);
double LEAST(const double *m);

enum { NS = SIZE_NS, NC = SIZE_NC, NU = SIZE_NU, NJ = SIZE_NJ, NY = SIZE_NY, NP = SIZE_NP, NA = SIZE_NA, ALL = SIZE_ALL, STEPS = SIZE_STEPS };
enum {
    C_Y = 0, C_C = NY, C_U = NY + NC + NJ,
    P_U = 0, P_NOISE = NU + NP, P_ACTS = P_NOISE + NY, P_Y = P_ACTS + NA, P_S = P_Y + NY, P_C = P_S + NS, P_M = P_C + NC
};

int main(void)
{
    const callbacks call = { NULL, calloc, free, NULL, NULL };
    void *controller = controller_fmi2Instantiate("controller", 1, CONTROLLER_GUID, "", &call, 0, 0);
    void *plant = plant_fmi2Instantiate("plant", 1, PLANT_GUID, "", &call, 0, 0);
    int unsafe = 0, differ = 0;
    double off = 0.0;

    if (!controller || !plant)
        return 1;
    for (int e = 0; e < EPISODES; e++) {
        double y[NY], c[NC], u[NU], s[NS], m[ALL], still[NU] = { 0.0 }, start = 0.1, early[P_M + ALL + 1], late[P_M + ALL + 1];
        int safe = 1, failed = 0;
        const unsigned first = 0;

        plant_fmi2Reset(plant), plant_fmi2EnterInitializationMode(plant);
        for (int i = 0; i < NP; i++)
            plant_set(plant, NU + i, 1, &start);
        plant_get(plant, 0, P_M + ALL + 1, early);
        plant_fmi2ExitInitializationMode(plant);
        plant_get(plant, 0, P_M + ALL + 1, late);
        if (memcmp(early, late, sizeof early) != 0 || !early[P_S] || LEAST(early + P_M) == 0.0 || !early[P_M + ALL])
            return 2; /* outputs of the initialization are those before the first step */
        controller_fmi2Reset(controller), controller_fmi2EnterInitializationMode(controller), controller_fmi2ExitInitializationMode(controller);
        plant_set(plant, P_S, NS, episode[e].s);
        plant_set(plant, P_C, NC, episode[e].c);
        OUTPUTS_OF(episode[e].s, episode[e].c, still, y);
        for (int i = 0; i < NY; i++)
            y[i] += noise[e * STEPS][i];
        for (int t = 0; t < STEPS; t++) {
            if (t)
                plant_get(plant, P_Y, NY, y);
            plant_get(plant, P_C, NC, c);
            controller_set(controller, C_Y, NY, y);
            controller_set(controller, C_C, NC, c);
            if (controller_fmi2DoStep(controller, t * PERIOD, PERIOD, 0))
                return 1;
            controller_get(controller, C_U, NU, u);
            plant_set(plant, P_U, NU, u);
            if (t + 1 < STEPS)
                plant_set(plant, P_NOISE, NY, noise[e * STEPS + t + 1]);
#ifdef DISTURBED
            plant_set(plant, P_ACTS, NA, acting[e * STEPS + t]);
#endif
            if (plant_fmi2DoStep(plant, t * PERIOD, PERIOD, 0))
                return 1;
            plant_get(plant, P_M, ALL, m);
            plant_fmi2GetBoolean(plant, &first, 1, &failed);
            safe = safe && LEAST(m) >= -TOLERANCE && !failed;
        }
        plant_get(plant, P_S, NS, s);
        plant_get(plant, P_C, NC, c);
        STATE_MARGINS(s, c, m);
        safe = safe && LEAST(m) >= -TOLERANCE;
        unsafe += !safe;
        differ += safe != episode[e].safe;
        for (int i = 0; i < NS; i++)
            off = fmax(off, fabs(s[i] - episode[e].end[i]));
    }
    controller_fmi2FreeInstance(controller);
    plant_fmi2FreeInstance(plant);
    printf("unsafe %d\ndiffer %d\noff %.3g\n", unsafe, differ, off);
    return 0;
}
