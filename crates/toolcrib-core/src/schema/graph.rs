//! References: whether they resolve, whether they loop, and how much they expand a schema.
//!
//! The limits of ERC-8257 bound the text of a schema, not its expansion: thirty definitions that each use the previous one twice stay far
//! below 1,024 nodes and keep a validator busy for an hour. So the schema is treated as a graph, with an edge from each subschema to those
//! it applies, and checked in three steps:
//!
//! 1. A cycle of edges that all apply to the same value never ends.
//! 2. The expanded size is the number of subschemas after every reference is replaced by its target, added up from the
//!    leaves over the strongly connected components.
//! 3. A cycle through properties or items is ordinary recursion, and costs no more than the value is large, as long as
//!    each part of the value is reached once. If two ways lead from a subschema to the same part and both come back,
//!    the work doubles with every level of the value.
//!
//! Everything here is iterative, and bounded by the 1,024 nodes that the previous walk accepted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::keyword::{Apply, Keyword, classify};
use super::walk::Walk;
use super::{MAX_EXPANDED, MAX_NODES};
use crate::codes;
use crate::json::{Array, Kind, Object, Value};

/// Largest array index in a reference. Arrays of subschemas cannot be longer than the node limit, and indexing into a long array for each
/// of many references would take quadratic time.
const MAX_INDEX: usize = MAX_NODES;

/// Most steps spent on distinguishing harmless recursion from doubling. Enough for every schema within the node limit that is not built to
/// be hard.
const MAX_STEPS: usize = 200_000;

/// Level at which a reference target outside the known schema positions is counted.
const TARGET_LEVEL: usize = 2;

/// Checks the references below `root`, which the walk found to be within the limits.
pub(super) fn check(root: Value<'_>, walk: &mut Walk<'_>) {
    let mut graph = Graph { root, nodes: Vec::new(), index: BTreeMap::new(), edges: Vec::new(), first: Vec::new() };
    if !graph.build(walk) {
        return;
    }
    graph.sort_edges();
    if let Some(at) = graph.endless() {
        return walk.report(codes::schema::REF_LOOP, |finding| finding.at(at));
    }
    let components = graph.components(|_| true);
    match graph.expanded(&components) {
        Ok(size) => walk.set_expanded(size),
        Err(at) => {
            return walk.report(codes::schema::EXPANSION, |finding| {
                finding.at(at).expected(format!("at most {MAX_EXPANDED} subschemas once references are followed"))
            });
        }
    }
    match graph.branching(&components) {
        Ok(()) => {}
        Err(Doubling::At(at)) => {
            // Legitimate schemas can have this shape, and no standard forbids it. The schema must not be compiled, which the validator
            // ensures.
            walk.report(codes::schema::BRANCHING_RECURSION, |finding| finding.at(at));
        }
        Err(Doubling::TooHard(at)) => walk.report(codes::schema::EXPANSION, |finding| {
            finding.at(at).message("the recursion of this schema is too complex to check")
        }),
    }
}

enum Doubling<'d> {
    At(Value<'d>),
    TooHard(Value<'d>),
}

struct Node<'d> {
    value: Value<'d>,
    level: usize,
    /// Whether an anchor here counts. Below `dependencies`, which 2020-12 does not define, it does not.
    anchored: bool,
    /// Whether `unevaluatedProperties` or `unevaluatedItems` visits everything again that was applied in place.
    twice: bool,
}

/// What a subschema inherits from its parent.
#[derive(Clone, Copy)]
struct Below {
    from: u32,
    level: usize,
    anchored: bool,
}

#[derive(Clone, Copy)]
struct Edge<'d> {
    from: u32,
    to: u32,
    apply: Apply,
    /// The property, for [`Apply::Property`].
    name: &'d str,
    /// The index, for [`Apply::Prefix`].
    place: u32,
}

struct Graph<'d> {
    root: Value<'d>,
    nodes: Vec<Node<'d>>,
    /// Node by the source position of its value, which is unique.
    index: BTreeMap<usize, u32>,
    edges: Vec<Edge<'d>>,
    /// For each node its first edge, and one more at the end.
    first: Vec<u32>,
}

/// Strongly connected components: for each node the number of its component, and all nodes in the order of those numbers. A component has a
/// greater number than every component that is reachable from it.
struct Components {
    of: Vec<u32>,
    order: Vec<u32>,
}

impl<'d> Graph<'d> {
    /// Collects nodes and edges. Returns whether the graph is complete.
    fn build(&mut self, walk: &mut Walk<'_>) -> bool {
        self.node(self.root, 1, true);
        self.apply_from(0);
        if self.has_moving_base(walk) {
            return false;
        }
        let mut anchors: BTreeMap<&'d str, u32> = BTreeMap::new();
        let mut sound = true;
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.anchored) {
            let names = ["$anchor", "$dynamicAnchor"].map(|key| node.value.get(key));
            for name in names.into_iter().flatten() {
                let Some(text) = name.as_str() else { continue };
                // One schema may have both kinds of anchor with the same name.
                if anchors.insert(text, at as u32).is_some_and(|before| before != at as u32) {
                    sound = false;
                    walk.report(codes::schema::DUPLICATE_ANCHOR, |finding| finding.at(name).got(text));
                }
            }
        }
        let mut from = 0;
        while let Some(node) = self.nodes.get(from) {
            let references = ["$ref", "$dynamicRef"].map(|key| node.value.get(key));
            for reference in references.into_iter().flatten() {
                let Some(text) = reference.as_str().filter(|text| text.is_empty() || text.starts_with('#')) else { continue };
                let to = match self.resolve(text, &anchors) {
                    Ok(to) => self.reached(to, walk),
                    Err(why) => {
                        sound = false;
                        walk.report(codes::schema::DANGLING_REF, |finding| finding.at(reference).message(why).got(text));
                        continue;
                    }
                };
                let Some(to) = to else { return false };
                self.edges.push(Edge { from: from as u32, to, apply: Apply::InPlace, name: "", place: 0 });
            }
            from += 1;
        }
        // Again, for targets outside the known schema positions.
        sound && !self.has_moving_base(walk)
    }

    /// Whether references and inner `$id`s occur together: then the meaning of a reference would depend on its position.
    fn has_moving_base(&self, walk: &mut Walk<'_>) -> bool {
        let moves = walk.has_refs() && walk.has_embedded_id();
        if moves {
            let inner = self.nodes.iter().skip(1).find_map(|node| node.value.get("$id")).unwrap_or(self.root);
            walk.report(codes::schema::EMBEDDED_ID, |finding| finding.at(inner));
        }
        moves
    }

    /// Returns the node of `value`, creating it if necessary.
    fn node(&mut self, value: Value<'d>, level: usize, anchored: bool) -> u32 {
        let next = self.nodes.len() as u32;
        let at = *self.index.entry(value.span().start).or_insert(next);
        if at == next {
            let twice = value.get("unevaluatedProperties").is_some() || value.get("unevaluatedItems").is_some();
            self.nodes.push(Node { value, level, anchored, twice });
        }
        at
    }

    /// Adds the subschemas of the nodes from index `from`, recursively.
    fn apply_from(&mut self, mut from: usize) {
        while let Some(node) = self.nodes.get(from) {
            let below = Below { from: from as u32, level: node.level + 1, anchored: node.anchored };
            for (key, member) in node.value.as_object().into_iter().flat_map(Object::iter) {
                match classify(key) {
                    Keyword::One(apply) => match member.as_array() {
                        // Only an old-style `items` has an array; it was reported.
                        Some(list) => list.iter().for_each(|item| self.edge(below, item, Apply::Items, "", 0)),
                        None => self.edge(below, member, apply, "", 0),
                    },
                    Keyword::List(apply) => {
                        for (place, item) in member.as_array().into_iter().flat_map(Array::iter).enumerate() {
                            self.edge(below, item, apply, "", place as u32);
                        }
                    }
                    Keyword::Map(apply) => {
                        for (name, item) in member.as_object().into_iter().flat_map(Object::iter) {
                            self.edge(below, item, apply, name, 0);
                        }
                    }
                    Keyword::Dependencies => {
                        for (_, item) in member.as_object().into_iter().flat_map(Object::iter) {
                            self.edge(Below { anchored: false, ..below }, item, Apply::InPlace, "", 0);
                        }
                    }
                    _ => {}
                }
            }
            from += 1;
        }
    }

    fn edge(&mut self, below: Below, value: Value<'d>, apply: Apply, name: &'d str, place: u32) {
        // Beyond the limit the target of a reference is rejected when it is counted, so the rest need not be stored.
        if matches!(value.kind(), Kind::Object | Kind::Bool) && self.nodes.len() <= MAX_NODES {
            let to = self.node(value, below.level, below.anchored);
            if apply != Apply::Named {
                self.edges.push(Edge { from: below.from, to, apply, name, place });
            }
        }
    }

    /// Returns the node of a reference target. A target outside the known schema positions becomes a schema by being referenced: it is
    /// checked and counted now, with everything below it. `None` if a limit was exceeded.
    fn reached(&mut self, target: Value<'d>, walk: &mut Walk<'_>) -> Option<u32> {
        let known = self.nodes.len();
        let to = self.node(target, TARGET_LEVEL, false);
        self.apply_from(known);
        let all_within = self.nodes[known..].iter().all(|node| walk.schema(node.value, node.level));
        (all_within && !walk.is_too_deep()).then_some(to)
    }

    /// The value that a reference within the schema points to.
    fn resolve(&self, reference: &'d str, anchors: &BTreeMap<&'d str, u32>) -> Result<Value<'d>, &'static str> {
        let fragment =
            decode(reference.strip_prefix('#').unwrap_or_default()).ok_or("the reference has an invalid percent escape")?;
        let target = if let Some(pointer) = fragment.strip_prefix('/') {
            pointer.split('/').try_fold(self.root, step)?
        } else if fragment.is_empty() {
            self.root
        } else {
            let at = anchors.get(&*fragment).ok_or("no subschema has this anchor")?;
            self.nodes[*at as usize].value
        };
        match target.kind() {
            Kind::Object | Kind::Bool => Ok(target),
            _ => Err("the reference points to a value that is not a schema"),
        }
    }

    fn sort_edges(&mut self) {
        self.edges.sort_by_key(|edge| edge.from);
        self.first = Vec::with_capacity(self.nodes.len() + 1);
        let mut at = 0;
        for node in 0..=self.nodes.len() {
            while self.edges.get(at).is_some_and(|edge| (edge.from as usize) < node) {
                at += 1;
            }
            self.first.push(at as u32);
        }
    }

    fn edges_of(&self, node: u32) -> &[Edge<'d>] {
        let node = node as usize;
        &self.edges[self.first[node] as usize..self.first[node + 1] as usize]
    }

    /// Returns a subschema that applies itself to the same value again.
    fn endless(&self) -> Option<Value<'d>> {
        let in_place = |edge: &Edge<'_>| edge.apply == Apply::InPlace;
        let components = self.components(in_place);
        let looping = self
            .edges
            .iter()
            .find(|edge| in_place(edge) && components.of[edge.from as usize] == components.of[edge.to as usize])?;
        let value = self.nodes[looping.from as usize].value;
        Some(value.get("$ref").or_else(|| value.get("$dynamicRef")).unwrap_or(value))
    }

    /// Tarjan's algorithm over the edges that `follow` accepts, with an explicit stack.
    fn components(&self, follow: impl Fn(&Edge<'_>) -> bool) -> Components {
        const UNSEEN: u32 = u32::MAX;
        let count = self.nodes.len();
        let mut seen = vec![UNSEEN; count];
        let mut low = vec![0_u32; count];
        let mut of = vec![UNSEEN; count];
        let mut order = Vec::with_capacity(count);
        let mut open: Vec<u32> = Vec::new();
        let mut path: Vec<(u32, usize)> = Vec::new();
        let (mut clock, mut next) = (0_u32, 0_u32);
        for start in 0..count as u32 {
            if seen[start as usize] != UNSEEN {
                continue;
            }
            path.push((start, 0));
            while let Some((node, mut at)) = path.pop() {
                let own = node as usize;
                if seen[own] == UNSEEN {
                    (seen[own], low[own]) = (clock, clock);
                    clock += 1;
                    open.push(node);
                }
                let edges = self.edges_of(node);
                let mut down = None;
                while let Some(edge) = edges.get(at) {
                    let to = edge.to as usize;
                    if !follow(edge) {
                        at += 1;
                    } else if seen[to] == UNSEEN {
                        down = Some(edge.to);
                        break;
                    } else {
                        // Either open, or in a closed component.
                        if of[to] == UNSEEN {
                            low[own] = low[own].min(low[to]);
                        }
                        at += 1;
                    }
                }
                if let Some(to) = down {
                    // The edge is visited again on return, to propagate what was found below it.
                    path.push((node, at));
                    path.push((to, 0));
                    continue;
                }
                if low[own] == seen[own] {
                    while let Some(member) = open.pop() {
                        of[member as usize] = next;
                        order.push(member);
                        if member == node {
                            break;
                        }
                    }
                    next += 1;
                }
            }
        }
        Components { of, order }
    }

    /// The expanded size of the root, or the innermost subschema that exceeds the limit.
    fn expanded(&self, components: &Components) -> Result<u64, Value<'d>> {
        let mut sizes = vec![0_u64; self.nodes.len()];
        // Components that are reachable from a component come before it, so their sizes are complete.
        for &node in &components.order {
            let own = components.of[node as usize] as usize;
            let mut size = 1_u64;
            for edge in self.edges_of(node) {
                let to = components.of[edge.to as usize] as usize;
                if to != own {
                    let times = if edge.apply == Apply::InPlace && self.nodes[node as usize].twice { 2 } else { 1 };
                    size = size.saturating_add(sizes[to].saturating_mul(times));
                }
            }
            sizes[own] = sizes[own].saturating_add(size);
            if sizes[own] > MAX_EXPANDED {
                return Err(self.nodes[node as usize].value);
            }
        }
        Ok(sizes[components.of[0] as usize])
    }

    /// Searches each cycle for a subschema from which two paths lead to the same part of a value and back into the cycle.
    fn branching(&self, components: &Components) -> Result<(), Doubling<'d>> {
        let within = |edge: &&Edge<'_>| components.of[edge.from as usize] == components.of[edge.to as usize];
        let mut done = vec![false; self.nodes.len()];
        let mut steps = 0_usize;
        for edge in self.edges.iter().filter(within).filter(|edge| edge.apply != Apply::InPlace) {
            // The subschema that a value is first validated with. One that only refers to another is skipped.
            let mut entry = edge.to;
            loop {
                let mut onward = self.edges_of(entry).iter().filter(within);
                match (onward.next(), onward.next()) {
                    (Some(only), None) if only.apply == Apply::InPlace => entry = only.to,
                    _ => break,
                }
            }
            if std::mem::replace(&mut done[entry as usize], true) {
                continue;
            }
            let mut parts = Parts::default();
            let mut pending = vec![entry];
            while let Some(node) = pending.pop() {
                for edge in self.edges_of(node).iter().filter(within) {
                    steps += 1;
                    if steps > MAX_STEPS {
                        return Err(Doubling::TooHard(self.nodes[entry as usize].value));
                    }
                    if edge.apply == Apply::InPlace {
                        pending.push(edge.to);
                    } else {
                        parts.add(edge);
                    }
                }
            }
            if parts.overlap() {
                return Err(Doubling::At(self.nodes[entry as usize].value));
            }
        }
        Ok(())
    }
}

/// The parts of one value that recursion descends into.
#[derive(Default)]
struct Parts<'d> {
    properties: Vec<&'d str>,
    patterns: usize,
    places: Vec<u32>,
    contains: usize,
    array: Side,
    object: Side,
}

/// Counts of all edges into array items, or into properties.
#[derive(Default)]
struct Side {
    count: usize,
    owner: Option<u32>,
    several_owners: bool,
    /// Whether one of them applies to "the rest", which only its own schema separates from named parts.
    rest: bool,
}

impl Side {
    fn add(&mut self, edge: &Edge<'_>, rest: bool) {
        self.count += 1;
        self.several_owners |= self.owner.is_some_and(|owner| owner != edge.from);
        self.owner = Some(edge.from);
        self.rest |= rest;
    }
}

impl<'d> Parts<'d> {
    fn add(&mut self, edge: &Edge<'d>) {
        match edge.apply {
            Apply::Property => {
                self.properties.push(edge.name);
                self.object.add(edge, false);
            }
            Apply::Pattern => {
                self.patterns += 1;
                self.object.add(edge, false);
            }
            Apply::Rest => self.object.add(edge, true),
            Apply::Prefix => {
                self.places.push(edge.place);
                self.array.add(edge, false);
            }
            Apply::Items | Apply::RestItems => self.array.add(edge, true),
            Apply::Contains => {
                self.contains += 1;
                self.array.add(edge, false);
            }
            // Names are strings and content is not decoded, so there is nothing to descend into.
            Apply::Names | Apply::Content | Apply::InPlace | Apply::Named => {}
        }
    }

    /// Whether some part may be reached twice. A value is either an array or an object.
    fn overlap(mut self) -> bool {
        self.properties.sort_unstable();
        self.places.sort_unstable();
        self.properties.windows(2).any(|pair| pair[0] == pair[1])
            || self.places.windows(2).any(|pair| pair[0] == pair[1])
            // The names that a pattern matches are not computed here.
            || self.patterns > 0 && self.patterns + self.properties.len() > 1
            || self.contains > 0 && self.array.count > 1
            || self.object.rest && self.object.several_owners
            || self.array.rest && self.array.several_owners
    }
}

/// One step of a JSON pointer (RFC 6901 §4).
fn step<'d>(value: Value<'d>, token: &str) -> Result<Value<'d>, &'static str> {
    const MISSING: &str = "the target of the reference does not exist";
    if let Some(object) = value.as_object() {
        return if token.contains('~') { object.get(&token.replace("~1", "/").replace("~0", "~")) } else { object.get(token) }
            .ok_or(MISSING);
    }
    let array = value.as_array().ok_or(MISSING)?;
    let is_index = token == "0" || !token.starts_with('0') && !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit());
    let index = token.parse::<usize>().ok().filter(|&index| is_index && index <= MAX_INDEX).ok_or(MISSING)?;
    array.iter().nth(index).ok_or(MISSING)
}

/// Decodes percent-encoding (RFC 3986 §2.1). `None` if an escape is invalid or the result is not UTF-8.
fn decode(fragment: &str) -> Option<Cow<'_, str>> {
    if !fragment.contains('%') {
        return Some(Cow::Borrowed(fragment));
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push((high << 4 | low) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}
