/* SPDX-License-Identifier: Apache-2.0 */
/* Asserts what plan.h promises of every Plan. */
#ifndef TESTS_PROGRAM_PLAN_CHECK_H
#define TESTS_PROGRAM_PLAN_CHECK_H

#include "tests/program/program_test.h"

static inline void check_reads_earlier(const struct sheaf_plan *plan, uint32_t index)
{
    const struct plan_port *port = &plan->ports[index];
    const uint32_t read[] = {port->source, port->members, port->mask};
    for (size_t i = 0; i < 3; i++) {
        if (read[i] == PLAN_NONE)
            continue;
        assert_true(read[i] < index);
        assert_true(!port->live || plan->ports[read[i]].live);
    }
}

/* Every live edge has exactly one reader entry, and there are no others. */
static inline void check_readers(const struct sheaf_plan *plan)
{
    uint32_t listed = 0, edges = 0;
    for (uint32_t i = 0; i < plan->port_count; i++) {
        const struct plan_port *port = &plan->ports[i];
        for (uint32_t j = 0; j < port->reader_count; j++, listed++) {
            const struct plan_reader *reader = &plan->readers[port->reader_first + j];
            assert_true(reader->is_call ? plan->calls[reader->index].live : plan->ports[reader->index].live);
            for (uint32_t k = 0; k < j; k++)
                assert_memory_not_equal(reader, &plan->readers[port->reader_first + k], sizeof(*reader));
        }
        if (port->live && port->port_kind != PLAN_EXPAND)
            edges += (port->source != PLAN_NONE) + (port->members != PLAN_NONE && port->members != port->source) +
                     (port->mask != PLAN_NONE && port->mask != port->source);
    }
    for (uint32_t i = 0; i < plan->call_count; i++) {
        const uint32_t *inputs = &plan->call_ports[plan->calls[i].input_first];
        for (uint32_t j = 0; plan->calls[i].live && j < plan->calls[i].input_count; j++) {
            bool again = false;
            for (uint32_t k = 0; k < j; k++)
                again |= inputs[k] == inputs[j];
            edges += !again;
        }
    }
    assert_int_equal(listed, edges);
}

static inline void check_domains(const struct sheaf_plan *plan)
{
    uint32_t ports = 0, calls = 0, children = 0;
    for (uint32_t i = 0; i < plan->domain_count; i++) {
        const struct plan_domain *domain = &plan->domains[i];
        assert_true(i == 0 ? domain->parent == PLAN_NONE && domain->depth == 1 : domain->parent < i);
        assert_int_equal(domain->port_count, domain->column_count);
        for (uint32_t j = 0; j < domain->port_count; j++, ports++) {
            const struct plan_port *port = &plan->ports[plan->domain_ports[domain->port_first + j]];
            assert_true(port->domain == i && port->column == j);
        }
        for (uint32_t j = 0; j < domain->call_count; j++, calls++) {
            const struct plan_call *call = &plan->calls[plan->domain_calls[domain->call_first + j]];
            assert_true(call->domain == i && call->position == j);
        }
        for (uint32_t j = 0; j < domain->child_count; j++, children++)
            assert_int_equal(plan->domains[plan->domain_children[domain->child_first + j]].parent, i);
        if (i > 0)
            assert_int_equal(domain->depth, plan->domains[domain->parent].depth + 1);
    }
    assert_true(ports == plan->port_count && calls == plan->call_count && children + 1 == plan->domain_count);
}

static inline void check_plan(const struct sheaf_plan *plan)
{
    uint32_t expansions = 0, pooled = 0, live = 0;
    for (uint32_t i = 0; i < plan->port_count; i++)
        check_reads_earlier(plan, i);
    for (uint32_t i = 0; i < plan->call_count; i++) {
        const struct plan_call *call = &plan->calls[i];
        live += call->live;
        assert_true(call->pool < plan->pool_count && call->batch_rows >= 1);
        for (uint32_t j = 0; j < call->input_count; j++) {
            uint32_t port = plan->call_ports[call->input_first + j];
            assert_int_equal(plan->ports[port].domain, call->domain);
            assert_true(!call->live || plan->ports[port].live);
        }
        for (uint32_t j = 0; j < call->output_count; j++) {
            const struct plan_port *port = &plan->ports[plan->call_ports[call->output_first + j]];
            assert_true(port->call == i && port->slot == j && port->domain == call->domain);
            assert_true(call->live || !port->live);
        }
        for (uint32_t j = 0; j < call->expansion_count; j++, expansions++)
            assert_int_equal(plan->domains[plan->call_expansions[call->expansion_first + j]].call, i);
    }
    assert_int_equal(expansions + 1, plan->domain_count);
    for (uint32_t i = 0; i < plan->pool_count; i++)
        for (uint32_t j = 0; j < plan->pools[i].call_count; j++, pooled++)
            assert_int_equal(plan->calls[plan->pool_calls[plan->pools[i].call_first + j]].pool, i);
    assert_int_equal(pooled, live);
    check_domains(plan);
    check_readers(plan);
    assert_int_equal(strspn(plan->fingerprint, "0123456789abcdef"), 64);
}

#endif
