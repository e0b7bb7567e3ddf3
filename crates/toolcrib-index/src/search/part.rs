//! One segment of an index: its columns, sort orders, and the tools with a label.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tantivy::columnar::{Column, ColumnValues};
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocId, DocSet as _, SegmentReader, TERMINATED, TantivyError, Term};

use crate::Error;
use crate::model::ToolKey;
use crate::search::document::{column, key_of};
use crate::search::embedding::{COLUMNS, DIMENSIONS, Vector};
use crate::search::rank::Packed;

/// The maximum number of filters whose bit sets are cached, for each segment. A bit for each of a million tools is 125 kB.
const MAX_BITS: usize = 64;

/// A segment as of one commit.
pub(super) struct Part {
    pub(super) reader: SegmentReader,
    pub(super) kept: Arc<SegmentColumns>,
}

type Values = Arc<dyn ColumnValues<u64>>;

/// The in-memory data of a segment. A segment never changes, except for deleted tools.
pub(super) struct SegmentColumns {
    registry: Values,
    id: [Values; 4],
    registered: Values,
    payers: Values,
    merit: Values,
    signals: [Values; 2],
    price: Column<u64>,
    vector: Vec<Column<u64>>,
    orders: [OnceLock<Vec<DocId>>; 3],
    /// The rank of each document in key order.
    ranks: OnceLock<Vec<u32>>,
    bits: Mutex<HashMap<Term, Arc<BitSet>>>,
}

/// A sort order of all tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The highest rank without a query first.
    Merit,
    /// The newest first.
    Newest,
    /// The most payers first.
    MostUsed,
}

impl Order {
    pub(super) const ALL: [Self; 3] = [Self::Merit, Self::Newest, Self::MostUsed];
}

impl SegmentColumns {
    pub(super) fn of(reader: &SegmentReader) -> Result<Self, Error> {
        let columns = reader.fast_fields();
        let values = |name: &str| columns.column_first_or_default::<u64>(name);
        let optional = |name: &str| {
            let column = columns.column_opt::<u64>(name)?;
            Ok::<_, TantivyError>(column.unwrap_or_else(|| Column::build_empty_column(reader.max_doc())))
        };
        let [id0, id1, id2, id3] = column::ID;
        let [first, second] = column::SIGNALS;
        let has_vectors = reader.schema().get_field(COLUMNS[0]).is_ok();
        Ok(Self {
            registry: values(column::REGISTRY)?,
            id: [values(id0)?, values(id1)?, values(id2)?, values(id3)?],
            registered: values(column::REGISTERED)?,
            payers: values(column::PAYERS)?,
            merit: values(column::MERIT)?,
            signals: [values(first)?, values(second)?],
            price: optional(column::PRICE)?,
            vector: if has_vectors { COLUMNS.iter().map(|name| optional(name)).collect::<Result<_, _>>()? } else { Vec::new() },
            orders: Default::default(),
            ranks: OnceLock::new(),
            bits: Mutex::default(),
        })
    }

    fn values(&self, order: Order) -> &Values {
        match order {
            Order::Merit => &self.merit,
            Order::Newest => &self.registered,
            Order::MostUsed => &self.payers,
        }
    }

    fn ranks(&self, count: u32) -> &[u32] {
        self.ranks.get_or_init(|| {
            let [low, rest @ ..] = self.id.each_ref();
            let mut ranks = vec![0; count as usize];
            let mut number = |docs: &mut dyn Iterator<Item = DocId>| {
                for (doc, rank) in docs.zip(0..) {
                    ranks[doc as usize] = rank;
                }
            };
            if rest.iter().all(|limb| limb.max_value() == 0) {
                // Ids count up from one, so one limb is nearly always enough.
                let (registries, ids) = (decoded(&self.registry, count), decoded(low, count));
                let mut keys: Vec<(i64, u64, DocId)> = (registries.iter().zip(ids).zip(0..))
                    .map(|((registry, id), doc)| (registry.cast_signed(), id, doc))
                    .collect();
                if !keys.is_sorted() {
                    keys.sort_unstable();
                }
                number(&mut keys.into_iter().map(|(_, _, doc)| doc));
            } else {
                let mut keys: Vec<(ToolKey, DocId)> = (0..count).map(|doc| (self.key(doc), doc)).collect();
                keys.sort_unstable();
                number(&mut keys.into_iter().map(|(_, doc)| doc));
            }
            ranks
        })
    }

    fn key(&self, doc: DocId) -> ToolKey {
        key_of(self.registry.get_val(doc), self.id.each_ref().map(|limb| limb.get_val(doc)))
    }
}

/// Returns all values of a column. Decoding them sequentially is faster than one by one.
fn decoded(values: &Values, count: u32) -> Vec<u64> {
    let mut decoded = vec![0; count as usize];
    values.get_range(0, &mut decoded);
    decoded
}

impl Part {
    /// Returns the key of a document.
    pub(super) fn key(&self, doc: DocId) -> ToolKey {
        self.kept.key(doc)
    }

    /// Returns its packed signals.
    pub(super) fn signals(&self, doc: DocId) -> Packed {
        self.kept.signals.each_ref().map(|column| column.get_val(doc))
    }

    /// Returns its price, if it has one.
    pub(super) fn price(&self, doc: DocId) -> Option<u64> {
        self.kept.price.first(doc)
    }

    /// Returns its vector, if it has one.
    pub(super) fn vector(&self, doc: DocId) -> Option<Vector> {
        let mut packed = [0; DIMENSIONS / 8];
        for (packed, column) in packed.iter_mut().zip(&self.kept.vector) {
            *packed = column.first(doc)?;
        }
        (!self.kept.vector.is_empty()).then(|| Vector::unpacked(&packed))
    }

    /// Returns its position in an order.
    pub(super) fn place(&self, order: Order, doc: DocId) -> (u64, ToolKey) {
        (self.kept.values(order).get_val(doc), self.kept.key(doc))
    }

    /// Returns all tools in an order, deleted ones included.
    pub(super) fn order(&self, order: Order) -> &[DocId] {
        self.kept.orders[order as usize].get_or_init(|| {
            let ranks = self.kept.ranks(self.reader.max_doc());
            let values = decoded(self.kept.values(order), self.reader.max_doc());
            // One number holds the whole sort key, which sorts many times as fast as reading columns for each comparison.
            let mut rows: Vec<u128> = (values.iter().zip(ranks).zip(0_u32..))
                .map(|((value, rank), doc)| (u128::from(*value) << 64) | (u128::from(*rank) << 32) | u128::from(doc))
                .collect();
            rows.sort_unstable_by(|a, b| b.cmp(a));
            rows.into_iter().map(|row| row as DocId).collect()
        })
    }

    /// Returns the bit set of the tools with a label.
    pub(super) fn bits(&self, label: &Term) -> Result<Arc<BitSet>, Error> {
        if let Some(bits) = self.kept.bits.lock().unwrap_or_else(PoisonError::into_inner).get(label) {
            return Ok(Arc::clone(bits));
        }
        let mut bits = BitSet::with_max_value(self.reader.max_doc());
        let index = self.reader.inverted_index(label.field())?;
        if let Some(mut postings) = index.read_postings(label, IndexRecordOption::Basic)? {
            let mut doc = postings.doc();
            while doc != TERMINATED {
                bits.insert(doc);
                doc = postings.advance();
            }
        }
        let bits = Arc::new(bits);
        let mut kept = self.kept.bits.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_BITS {
            kept.clear();
        }
        kept.insert(label.clone(), Arc::clone(&bits));
        Ok(bits)
    }
}
