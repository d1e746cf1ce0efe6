/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "engine/shard.h"

struct counted {
    pthread_mutex_t lock;
    uint64_t *entities;                    /* per Domain */
    struct lineage_output_counts *outputs; /* per output */
    struct lineage_call_counts *grains;    /* per Call, as the next */
    struct call_counts *work;
    struct counts_left left;
};

int counts_create(struct shard *shard)
{
    const struct sheaf_plan *plan = shard->plan;
    struct counted *counted = calloc(1, sizeof *counted);
    if (!counted)
        return -ENOMEM;
    pthread_mutex_init(&counted->lock, NULL);
    shard->counted = counted;
    counted->entities = calloc(plan->domain_count + 1, sizeof *counted->entities);
    counted->outputs = calloc(plan->output_count + 1, sizeof *counted->outputs);
    counted->grains = calloc(plan->call_count + 1, sizeof *counted->grains);
    counted->work = calloc(plan->call_count + 1, sizeof *counted->work);
    return counted->entities && counted->outputs && counted->grains && counted->work ? 0 : -ENOMEM;
}

void counts_destroy(struct shard *shard)
{
    struct counted *counted = shard->counted;
    if (!counted)
        return;
    pthread_mutex_destroy(&counted->lock);
    free(counted->entities);
    free(counted->outputs);
    free(counted->grains);
    free(counted->work);
    free(counted);
    shard->counted = NULL;
}

static struct counts_left count_left(const struct shard *shard)
{
    return (struct counts_left){.claims = shard->slot_used,
                                .holds = shard->hold_used,
                                .roots = lineage_live_roots(shard->lineage),
                                .entities = lineage_live_entities(shard->lineage)};
}

bool counts_are_stale(const struct shard *shard)
{
    struct counts_left now = count_left(shard);
    const struct counts_left *published = &shard->counted->left; /* only this thread writes it */
    return now.claims != published->claims || now.holds != published->holds || now.roots != published->roots ||
           now.entities != published->entities;
}

void counts_publish(struct shard *shard)
{
    const struct sheaf_plan *plan = shard->plan;
    struct counted *counted = shard->counted;
    pthread_mutex_lock(&counted->lock);
    for (uint32_t domain = 0; domain < plan->domain_count; domain++)
        counted->entities[domain] = lineage_entity_count(shard->lineage, domain);
    for (uint32_t output = 0; output < plan->output_count; output++)
        lineage_output_counts(shard->lineage, output, &counted->outputs[output]);
    for (uint32_t call = 0; call < plan->call_count; call++) {
        lineage_call_counts(shard->lineage, call, &counted->grains[call]);
        counted->work[call] = shard->counts[call];
    }
    counted->left = count_left(shard);
    pthread_mutex_unlock(&counted->lock);
}

uint64_t counts_entities(const struct shard *shard, uint32_t domain)
{
    pthread_mutex_lock(&shard->counted->lock);
    uint64_t entities = shard->counted->entities[domain];
    pthread_mutex_unlock(&shard->counted->lock);
    return entities;
}

void counts_output(const struct shard *shard, uint32_t output, struct lineage_output_counts *ret_counts)
{
    pthread_mutex_lock(&shard->counted->lock);
    *ret_counts = shard->counted->outputs[output];
    pthread_mutex_unlock(&shard->counted->lock);
}

void counts_call(const struct shard *shard, uint32_t call, struct lineage_call_counts *ret_grains,
                 struct call_counts *ret_work)
{
    pthread_mutex_lock(&shard->counted->lock);
    if (ret_grains)
        *ret_grains = shard->counted->grains[call];
    if (ret_work)
        *ret_work = shard->counted->work[call];
    pthread_mutex_unlock(&shard->counted->lock);
}

void counts_left_over(const struct shard *shard, struct counts_left *ret_left)
{
    pthread_mutex_lock(&shard->counted->lock);
    *ret_left = shard->counted->left;
    pthread_mutex_unlock(&shard->counted->lock);
}
