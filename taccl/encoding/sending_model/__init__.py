r"""One scheduling model for CP-SAT: items on links, with shared sends.

An *item* is what travels as one: a chunk, a bundle of chunks, a partial sum. Time is counted in ticks. Of a
send s over a link l, members(s) are the items that may be in it; |i| is what a port is busy with for i.

    active[s], start[s], end[s]   whether a send takes place, and when
    in[i, s]                      item i travels in s; in[i, s] => active[s]
    n[s]                          the chunks in s, at most as many as a group may have
    use[i, l]                     = sum over the sends s on l of in[i, s]
    at[i, r]                      when item i is at rank r; of a partial sum, when all that comes there has
                                  come
    root[c, r]                    whether the sum of chunk c is made at rank r
    T                             when everything has ended

    duration          end[s] = start[s] + alpha_l + |s| beta_l
    received once     of copies, sum over l into r of use[i, l] = 1 - root[i, r] where r wants i;
                      <= 1 elsewhere
    held first        use[i, l] <= sum over links k into src(l) of use[i, k]
    passed on once    of sums, sum over l out of r of use[i, l] = 1 - root[i, r]
    helpers           of sums, where r has no contribution: use[i, k] <= sum over l out of r of use[i, l] +
                      root[c, r] <= sum over l into r of use[i, l], for each link k into r
    no sums           sum over l into r of use[i, l] <= 1, 0 where r contributes, if r may not sum
    no copies         sum over l out of r of use[i, l] <= 1, 0 where r wants i, if r may not copy
    one root          sum over r of root[c, r] = 1, and root[c, r]  =>  at[copy of c, r] >= at[sum of c, r]
    presence          in[i, s]  =>  start[s] >= at[i, src(l)]  and  at[i, dst(l)] >= end[s]
    ports             the times for which sends keep a port busy do not overlap
    own first         the sender's own chunks end before any other starts, where the sketch says so

`sends` has the variables, `rules` and `ports` one function for each of these families. Who writes a model
down decides which items are open, over which links they may go, what stays as it is, and for which ranks
rules are written.
"""
