#!/usr/bin/awk -f
# remat_check.awk GRAPH SEQUENCE [BUDGET]: what a sequence of ops takes, from the rules alone. Prints its cost and
# its peak; ends with 1, and says why, when it breaks a rule or its peak is over the budget.
#   Every op runs at least once, each behind its inputs. A value lives from its run to the last reader before its
#   op runs again, both included.
# It adds up all that lives at each run anew, so that it has nothing in common with what it checks.
BEGIN {
    if (ARGC < 3) {
        print "usage: remat_check.awk GRAPH SEQUENCE [BUDGET]"
        bad = 2
        exit
    }
    getline < ARGV[1]
    n = $1
    m = $2
    for (v = 0; v < n; v++) {
        getline < ARGV[1]
        bytes[v] = $1
        costs[v] = $2
    }
    for (e = 0; e < m; e++) {
        getline < ARGV[1]
        input[$2, n_in[$2]++] = $1
    }
    while ((getline < ARGV[2]) > 0)
        op[runs++] = $1
    for (t = 0; t < runs; t++) {
        v = op[t]
        if (v !~ /^[0-9]+$/ || v >= n)
            wrong("run " t ": there is no op '" v "'")
        for (i = 0; i < n_in[v]; i++) {
            if (!((v, i) in input) || !(input[v, i] in made))
                wrong("run " t ": op " v " comes before its input " input[v, i])
            last[made[input[v, i]]] = t
        }
        made[v] = last[t] = t
        cost += costs[v]
    }
    for (v = 0; v < n; v++)
        if (!(v in made))
            wrong("op " v " never runs")
    for (t = 0; t < runs; t++) {
        live = 0
        for (s = 0; s <= t; s++)
            if (last[s] >= t)
                live += bytes[op[s]]
        if (live > peak)
            peak = live
    }
    printf "%.0f %.0f\n", cost, peak
    if (ARGC > 3 && peak > ARGV[3] + 0)
        wrong("its peak is over " ARGV[3])
    exit
}
function wrong(why) {
    print why
    bad = 1
    exit
}
END { exit bad }
