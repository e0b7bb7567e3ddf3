// Node 22.18 and newer run TypeScript by removing the types.

interface Now {
  timeZone?: string;
}

interface Difference {
  from: string;
  to: string;
}

export async function now({ timeZone = 'UTC' }: Now) {
  const date = new Date();
  const shown = new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'long', timeZone }).format(date);
  return { iso: date.toISOString(), timeZone, shown };
}

export async function difference({ from, to }: Difference) {
  const [start, end] = [from, to].map((text) => {
    const time = Date.parse(text);
    if (Number.isNaN(time)) throw new Error(`not an ISO 8601 date: ${text}`);
    return time;
  });
  const hours = (end - start) / 3_600_000;
  return { days: Math.trunc(hours / 24), hours: hours % 24 };
}
