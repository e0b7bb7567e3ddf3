// Made-up weather, the same for the same place and key, so that the example runs without a service. A real tool sends a request with
// `context.config.api_key` here, and has `"sandbox": { "network": [53, 443] }` in its manifest.
const { createHmac } = require('node:crypto');

const SKIES = ['clear', 'cloudy', 'rain', 'snow'];

function weather(key, place, day, units = 'metric') {
  const bytes = createHmac('sha256', key).update(`${place} ${day}`).digest();
  const celsius = (bytes[0] % 45) - 10;
  const metres = bytes[1] % 20;
  return units === 'imperial'
    ? { fahrenheit: celsius * 1.8 + 32, milesPerHour: Math.round(metres * 2.237), sky: SKIES[bytes[2] % SKIES.length] }
    : { celsius, metresPerSecond: metres, sky: SKIES[bytes[2] % SKIES.length] };
}

exports.current = async ({ place, units }, context) => weather(context.config.api_key, place, 0, units);

exports.forecast = async ({ place, days }, context) =>
  Array.from({ length: days }, (_, day) => weather(context.config.api_key, place, day + 1));
